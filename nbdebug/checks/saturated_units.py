"""Units that sit at the end of their scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nbdebug.errors import NotApplicable
from nbdebug.evidence import UnitActivity, UnitFacts
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy, in_code
from nbdebug.registry import check

__all__ = ["saturated_units"]

NONE_SEEN = "no activation with a floor and a ceiling was seen"


@check(explains=("batch-not-memorised", "vanishing-gradients", "untrained-parameters"))
def saturated_units(
    activity: UnitActivity,
    *,
    share: float = 0.5,  # SageMaker Debugger: more than half of a layer
    least_units: int = 4,
) -> Iterator[Finding]:
    """Most units of a layer with a bounded activation sit where its slope is nearly zero.

    nbdebug runs many batches in eval mode and measures the slope of every activation that has a floor and a ceiling
    (tanh, sigmoid and their like, by name or written by hand). A unit is saturated when its slope is below one
    hundredth of the steepest for three samples out of five.

    Why it matters: where the slope is nearly zero, so is the gradient: the units say the same whatever their weights
    do, and the layers before them hear nothing.

    What to try: normalise the inputs, start from smaller weights (nn.init.xavier_uniform_), put a normalisation before
    the activation, or use ReLU or GELU.
    """
    bounded = [layer for layer in activity.layers if layer.bounded]
    if not bounded:
        why = "it takes single units, which nbdebug.diagnose looks at" if activity.is_watched else NONE_SEEN
        raise NotApplicable(why)
    for layer in bounded:
        if layer.units >= least_units and layer.saturated > share * layer.units:
            yield _finding(layer, bounded, share)


def _finding(layer: UnitFacts, bounded: Sequence[UnitFacts], share: float) -> Finding:
    return Finding(
        f"{layer.saturated} of the {layer.units} units of {layer.path} sit at the end of their activation "
        f"({layer.activation}): what reaches it lies between {layer.low:.3g} and {layer.high:.3g}, and at "
        f"{layer.flat:.0%} of the values its slope is nearly zero.",
        where=layer.path,
        severity="bug" if layer.saturated > 0.8 * layer.units else "suspect",
        evidence={
            "saturated": layer.saturated,
            "units": layer.units,
            "share of flat values": layer.flat,
            "threshold": share,
            "source": "SageMaker Debugger: saturated in more than half of the layer",
        },
        remedies=(
            Remedy("Start smaller.", f"nn.init.xavier_uniform_({in_code(layer.path)}.weight)", Patch("reinitialise")),
            Remedy("Normalise what goes in.", "x = (x - mean) / std", Patch("standardise-inputs")),
        ),
        exhibit=Bars(
            tuple(la.path for la in bounded),
            tuple(la.flat for la in bounded),
            title="Share of values without a slope",
        ),
    )
