"""The targets are not scaled."""

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
    large: float = 30.0,  # outputs start near unit scale, and a step of Adam moves them by hundredths
    small: float = 1e-3,  # targets with a smaller range than this are dominated by the initial outputs
) -> Iterator[Finding]:
    """The targets are on a very different scale from the outputs.

    nbdebug computes the constant output that minimizes the loss, for low and for high targets, so that a scaling inside
    the loss (a logarithm, a division) counts, and compares it with the outputs of the model. A head that reaches the
    targets, by its bias or by a factor, is fine.

    Why it matters: with targets of 100,000 the initial errors and gradients are enormous, or, with an optimizer whose
    step size does not depend on the gradient, it takes tens of thousands of steps to get there.

    What to try: standardize the targets with their mean and standard deviation, and invert it at prediction time;
    predict the logarithm of positive targets; or initialize the output bias with the mean.
    """
    size = max(abs(reach.lowest), abs(reach.highest))
    margin = reach.spread / 4
    low, high = sorted((reach.lowest, reach.highest))
    inside = low - margin <= reach.mean <= high + margin
    if size > large and not inside:
        says = f"the mean output is {reach.mean:.3g} but the loss is minimal at {reach.best:.3g}"
    elif reach.spread / 2 > large and abs(reach.mean) < large and reach.std < 0.02 * reach.spread:
        says = f"the outputs have a standard deviation of {reach.std:.3g} instead of about {reach.spread / 2:.3g}"
    elif 0 < reach.spread < small and reach.std > 100 * reach.spread:
        says = f"the outputs have a standard deviation of {reach.std:.3g} instead of about {reach.spread / 2:.1g}"
    else:
        return
    yield Finding(
        f"The targets `{reach.name}` are not scaled (mean {reach.target_mean:.3g}, standard deviation "
        f"{reach.target_std:.3g}): {says}.",
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
        remedies=(Remedy("Standardize the targets.", "y = (y - y.mean()) / y.std()", Patch("standardise-targets")),),
        exhibit=Bars(
            ("mean output", "optimum, low targets", "optimum", "optimum, high targets"),
            (reach.mean, reach.lowest, reach.best, reach.highest),
            title="Outputs and loss-minimizing outputs",
        ),
    )
