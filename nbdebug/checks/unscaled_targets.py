"""Targets far from what the outputs can be."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import TargetReach
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["unscaled_targets"]


@check(explains=("initial-loss-off", "batch-not-memorised", "output-bias-ignores-prior", "exploding-gradients",
                 "learning-rate-too-high", "learning-rate-too-low", "worse-than-baseline"))  # fmt: skip
def unscaled_targets(
    reach: TargetReach,
    *,
    large: float = 30.0,  # outputs begin at about unit size, and a step of Adam moves them by hundredths
    small: float = 1e-3,  # targets whose whole spread is less than that drown in the first outputs
) -> Iterator[Finding]:
    """The targets are far from the size of the outputs.

    nbdebug asks the loss for the constant output that it likes best, for low and for high targets, so that a scaling
    inside of the loss (a logarithm, a division) counts, and compares with what the model gives. A head that reaches the
    targets, by its bias or by a factor, is fine.

    Why it matters: with targets of 100,000 the first errors are enormous and so are the gradients, or, with an
    optimizer that takes steps of one size, it takes tens of thousands of steps to get there at all.

    What to try: standardise the targets with their mean and standard deviation, and undo it when predicting; predict
    the logarithm of positive ones; or start the last bias at the mean.
    """
    size = max(abs(reach.lowest), abs(reach.highest))
    margin = reach.spread / 4
    low, high = sorted((reach.lowest, reach.highest))
    inside = low - margin <= reach.mean <= high + margin
    if size > large and not inside:
        says = f"the outputs are around {reach.mean:.3g} and the loss wants them around {reach.best:.3g}"
    elif reach.spread / 2 > large and abs(reach.mean) < large and reach.std < 0.02 * reach.spread:
        says = f"the outputs have a spread of {reach.std:.3g} and the loss wants one of about {reach.spread / 2:.3g}"
    elif 0 < reach.spread < small and reach.std > 100 * reach.spread:
        says = f"the outputs have a spread of {reach.std:.3g} and the loss wants one of about {reach.spread / 2:.1g}"
    else:
        return
    yield Finding(
        f"The targets {reach.name} (mean {reach.target_mean:.3g}, standard deviation {reach.target_std:.3g}) are out "
        f"of reach: {says}.",
        where=reach.name,
        severity="suspect",
        evidence={
            "best output": reach.best,
            "best for low and high targets": [reach.lowest, reach.highest],
            "mean of the outputs": reach.mean,
            "spread of the outputs": reach.std,
            "threshold": large,
            "source": "debugging neural networks: scale the targets",
        },
        remedies=(Remedy("Standardise the targets.", "y = (y - y.mean()) / y.std()", Patch("standardise-targets")),),
        exhibit=Bars(
            ("outputs", "best for low targets", "best", "best for high targets"),
            (reach.mean, reach.lowest, reach.best, reach.highest),
            title="Where the outputs are, and where the loss wants them",
        ),
    )
