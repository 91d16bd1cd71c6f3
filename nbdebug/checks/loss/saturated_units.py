"""Units are saturated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy, in_code
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.unit_activity import UnitActivity, UnitFacts

__all__ = ["saturated_units"]

NONE_SEEN = "no bounded activation (sigmoid, tanh) was found"


@check(basis="statistic", explains=("cannot-overfit-batch", "vanishing-gradients", "untrained-parameters"))
def saturated_units(
    activity: UnitActivity,
    *,
    share: float = 0.5,  # SageMaker Debugger: more than half of a layer
    least_units: int = 4,  # our choice: half of two units says little
    nearly_all: float = 0.8,  # of a layer: a bug; our choice
) -> Iterator[Finding]:
    """Most units of a layer with a bounded activation are saturated.

    nbdebug runs many batches in eval mode and measures the derivative of every bounded activation (tanh, sigmoid and
    similar, built-in or custom). A unit is saturated when its derivative is below one hundredth of the maximum for
    three samples out of five.

    Why it matters: where the derivative is nearly zero, so is the gradient: the units hardly respond to their weights,
    and the layers before them receive no gradient.

    What to try: normalize the inputs, use a smaller initialization (`nn.init.xavier_uniform_`), put a normalization
    layer before the activation, or use ReLU or GELU.
    """
    bounded = [layer for layer in activity.layers if layer.bounded]
    if not bounded:
        recorded = "single units are not recorded during training; nbdebug.diagnose measures them"
        why = recorded if activity.is_watched else NONE_SEEN
        raise NotApplicable(why)
    for layer in bounded:
        if layer.units >= least_units and layer.saturated > share * layer.units:
            yield _finding(layer, bounded, share, nearly_all)


def _finding(layer: UnitFacts, bounded: Sequence[UnitFacts], share: float, nearly_all: float) -> Finding:
    return Finding(
        f"{layer.saturated} of {layer.units} units in `{layer.path}` are saturated (activation: {layer.activation}): "
        f"its inputs lie between {layer.low:.3g} and {layer.high:.3g}, and {layer.flat:.0%} have a near-zero "
        "derivative.",
        where=layer.path,
        severity="bug" if layer.saturated > nearly_all * layer.units else "suspect",
        evidence={
            "saturated": layer.saturated,
            "units": layer.units,
            "share of flat values": layer.flat,
            "threshold": share,
            "source": "SageMaker Debugger: saturated in more than half of the layer",
        },
        remedies=(
            Remedy(
                "Use a smaller initialization.",
                f"nn.init.xavier_uniform_({in_code(layer.path)}.weight)",
                Patch("reinitialize"),
            ),
            Remedy("Normalize the inputs.", "x = (x - mean) / std", Patch("standardize-inputs")),
        ),
        exhibit=Bars(
            tuple(la.path for la in bounded),
            tuple(la.flat for la in bounded),
            title="Fraction of values with near-zero derivative",
        ),
    )
