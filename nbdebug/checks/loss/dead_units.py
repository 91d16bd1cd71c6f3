"""Units that output zero for every sample."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy, Severity, in_code
from nbdebug.core.registry import check
from nbdebug.evidence.unit_activity import UnitActivity, UnitFacts

__all__ = ["dead_units"]


@check(
    basis="statistic",
    explains=(
        "cannot-overfit-batch",
        "untrained-parameters",
        "vanishing-gradients",
        "outputs-identical",
        "loss-flat",
        "step-never-taken",
    ),
)
def dead_units(
    activity: UnitActivity,
    *,
    share: float = 0.5,  # SageMaker Debugger: more than half of a layer
    surprise: float = 1e-3,  # probability of as many dead units if half of them are dead by chance; our choice
    least_samples: int = 64,  # fewer are not enough, unless they are the whole dataset; our choice
    nearly_all: float = 0.9,  # of a layer: too many even if the rest still learns; our choice
) -> Iterator[Finding]:
    """Most units of a layer output zero for every sample.

    nbdebug runs many batches in eval mode and records the input and output of every activation. A unit is dead if its
    input is never positive and its output is always zero. Sparse layers, in which every unit is active for some
    samples, are fine. In a training run that it watches, a unit is dead if it gets no gradient and is never positive,
    step after step, in a layer whose units with a gradient all are; while the loss still falls, that is a note unless
    it is nearly the whole layer.

    Why it matters: a dead unit has zero gradient, so it stays dead. A layer of dead units outputs only zeros, and all
    layers before it stop learning.

    What to try: look for a large negative bias, weights or a learning rate that are too large, and unnormalized inputs;
    LeakyReLU or GELU have a nonzero gradient below zero.
    """
    if activity.samples < least_samples and not activity.all_seen:
        return
    for layer in activity.layers:
        if layer.dead == layer.units or (layer.dead > share * layer.units and _probability(layer) < surprise):
            yield _finding(layer, activity, share, nearly_all)


def _probability(layer: UnitFacts) -> float:
    """Return the probability of so many dead units if each is dead with p = 0.5, as inputs of a common sign cause."""
    if layer.units <= 512:
        ways = sum(math.comb(layer.units, k) for k in range(layer.dead, layer.units + 1))
        return float(ways / 2**layer.units)
    z = (layer.dead - layer.units / 2) / math.sqrt(layer.units / 4)
    return 0.5 * math.erfc(z / math.sqrt(2))


def _message(layer: UnitFacts, activity: UnitActivity) -> str:
    if math.isnan(layer.low):  # the input of the activation was not recorded
        return f"`{layer.path}` ({layer.activation}) output only zeros in the last {activity.samples} {activity.unit}."
    seen = f"{activity.samples} {activity.unit}" if layer.samples is None else f"{layer.samples} samples"
    return (
        f"{layer.dead} of {layer.units} units in `{layer.path}` are dead: they output zero for all {seen} "
        f"(pre-activations {layer.low:.3g} to {layer.high:.3g}, activation: {layer.activation})."
    )


def _severity(layer: UnitFacts, activity: UnitActivity, nearly_all: float) -> Severity:
    is_nearly_all = layer.dead > nearly_all * layer.units
    if activity.learns and layer.dead < layer.units:
        return "suspect" if is_nearly_all else "note"
    return "bug" if is_nearly_all else "suspect"


def _finding(layer: UnitFacts, activity: UnitActivity, share: float, nearly_all: float) -> Finding:
    return Finding(
        _message(layer, activity),
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
                "Initialize the bias to zero.",
                f"nn.init.zeros_({in_code(layer.path)}.bias)",
                Patch("zero-bias", {"path": layer.path}),
            ),
            Remedy("Use an activation with a gradient below zero.", "nn.LeakyReLU(0.01)", Patch("leaky-activations")),
            Remedy("Re-initialize the weights.", "layer.reset_parameters()", Patch("reinitialize")),
        ),
        exhibit=Bars(
            tuple(la.path for la in activity.layers),
            tuple(la.dead / la.units for la in activity.layers),
            title="Fraction of dead units",
            band=(0.0, share),
        ),
    )
