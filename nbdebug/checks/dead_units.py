"""Units that never fire."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nbdebug.evidence import UnitActivity, UnitFacts
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy, Severity, in_code
from nbdebug.registry import check

__all__ = ["dead_units"]


@check(
    explains=(
        "batch-not-memorised",
        "untrained-parameters",
        "vanishing-gradients",
        "outputs-identical",
        "loss-flat",
        "step-never-taken",
    )
)
def dead_units(
    activity: UnitActivity,
    *,
    share: float = 0.5,  # SageMaker Debugger: more than half of a layer
    surprise: float = 1e-3,  # chance that as many units are dead when every other one is
    least_samples: int = 64,  # fewer tell little, unless they are all there is
    nearly_all: float = 0.9,  # of a layer: too many also where the rest is enough to learn
) -> Iterator[Finding]:
    """Most units of a layer are zero for every sample.

    nbdebug runs many batches in eval mode and looks at what goes into and comes out of every activation. A unit is
    dead when what goes in is never positive and what comes out is always zero. Sparse layers, in which every unit
    fires now and then, are healthy. In a training that it watches, a unit is dead that gets no gradient and is never
    positive, step after step, in a layer where all others with a gradient are; while the loss falls all the same, that
    is a note unless it is nearly the whole layer.

    Why it matters: a dead unit has no gradient, so it stays dead. A layer of dead units passes nothing on, and
    everything before it stops learning.

    What to try: look for a large negative bias, weights or a learning rate that are too large, and inputs that are
    not normalised; LeakyReLU or GELU keep a gradient alive below zero.
    """
    if activity.samples < least_samples and not activity.all_seen:
        return
    for layer in activity.layers:
        if layer.dead == layer.units or (layer.dead > share * layer.units and _chance(layer) < surprise):
            yield _finding(layer, activity, share, nearly_all)


def _chance(layer: UnitFacts) -> float:
    """Give how likely it is that so many units are dead when a coin decides: a common sign of all inputs does that."""
    if layer.units <= 512:
        ways = sum(math.comb(layer.units, k) for k in range(layer.dead, layer.units + 1))
        return float(ways / 2**layer.units)
    z = (layer.dead - layer.units / 2) / math.sqrt(layer.units / 4)
    return 0.5 * math.erfc(z / math.sqrt(2))


def _says(layer: UnitFacts, activity: UnitActivity) -> str:
    if math.isnan(layer.low):  # what goes into the activation was not seen
        looks = f"{activity.samples} {activity.unit}"
        return f"{layer.path} ({layer.activation}) gave nothing but zeros in all of the last {looks}."
    seen = f"{activity.samples} {activity.unit}" if layer.samples is None else f"{layer.samples} samples"
    return (
        f"{layer.dead} of the {layer.units} units of {layer.path} are zero for all of {seen}: what reaches their "
        f"activation ({layer.activation}) lies between {layer.low:.3g} and {layer.high:.3g}."
    )


def _severity(layer: UnitFacts, activity: UnitActivity, nearly_all: float) -> Severity:
    is_nearly_all = layer.dead > nearly_all * layer.units
    if activity.learns and layer.dead < layer.units:
        return "suspect" if is_nearly_all else "note"
    return "bug" if is_nearly_all else "suspect"


def _finding(layer: UnitFacts, activity: UnitActivity, share: float, nearly_all: float) -> Finding:
    return Finding(
        _says(layer, activity),
        where=layer.path,
        severity=_severity(layer, activity, nearly_all),
        evidence={
            "dead": layer.dead,
            "units": layer.units,
            "samples": activity.samples if layer.samples is None else layer.samples,
            "threshold": share,
            "source": "SageMaker Debugger; TheDeepChecker",
        },
        remedies=(
            Remedy(
                "Start the bias at zero.",
                f"nn.init.zeros_({in_code(layer.path)}.bias)",
                Patch("zero-bias", {"path": layer.path}),
            ),
            Remedy("Use an activation that never is quite silent.", "nn.LeakyReLU(0.01)", Patch("leaky-activations")),
            Remedy("Draw the weights anew by their fan.", "layer.reset_parameters()", Patch("reinitialise")),
        ),
        exhibit=Bars(
            tuple(la.path for la in activity.layers),
            tuple(la.dead / la.units for la in activity.layers),
            title="Share of dead units",
            band=(0.0, share),
        ),
    )
