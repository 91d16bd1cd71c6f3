"""The targets are not scaled."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.loss_of_outputs import LossBox, open_box
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.nested import Path

__all__ = ["TargetReach", "target_reach", "unscaled_targets"]


@dataclass(frozen=True)
class TargetReach:
    """The constant output that the loss likes best, for all samples and for the lowest and highest quarter of them.

    `mean` and `std` are those of what the model gives now.
    """

    name: str
    best: float
    lowest: float
    highest: float
    mean: float
    std: float
    target_mean: float
    target_std: float

    @property
    def spread(self) -> float:
        """How far apart the best outputs for low and for high targets are."""
        return abs(self.highest - self.lowest)


SAMPLES = 128
_SIZES = [10 ** (k / 4) for k in range(-20, 33)]  # from 0.00001 to 100,000,000
GRID = [*(-size for size in reversed(_SIZES)), 0.0, *_SIZES]


@probe
def target_reach(sandbox: Sandbox, trial: TrialRun) -> TargetReach:
    """Find the constant output with the lowest loss, for low and for high targets."""
    require_run(trial)
    batch = sandbox.batch().head(SAMPLES)
    if len(batch.targets) != 1:
        raise NotApplicable("the batch has no separate target, or several")
    name, target = next(iter(batch.targets.items()))
    if not target.is_floating_point() or target.shape[:1] != (batch.size,) or batch.size < 8:
        raise NotApplicable("the targets are not real-valued, with one row for each of at least 8 samples")
    if bool(((target >= 0) & (target <= 1)).all()):
        raise NotApplicable("the targets lie between 0 and 1")
    with sandbox.mode(training=False):
        box = open_box(sandbox, batch)
    heads = [(path, output) for path, output in box.heads.items() if output.shape[0] == batch.size]
    if not heads:
        raise NotApplicable("the output has no batch dimension")
    path, output = heads[0]
    order = target.flatten(1).mean(1).argsort() if target.dim() > 1 else target.argsort()
    quarter = max(2, batch.size // 4)
    low, high = batch.select(order[:quarter]), batch.select(order[-quarter:])
    return TargetReach(
        name,
        best=_best(box, path, output, batch),
        lowest=_best(box, path, output, low),
        highest=_best(box, path, output, high),
        mean=float(output.mean()),
        std=float(output.std()),
        target_mean=float(target.mean()),
        target_std=float(target.std()),
    )


def _best(box: LossBox, path: Path, output: torch.Tensor, batch: Batch) -> float:
    """Return the constant output with the least loss on these samples."""
    shape = (batch.size, *output.shape[1:])

    def losses(values: list[float]) -> list[tuple[float, float]]:
        found = [(box.loss(path, output.new_full(shape, value), batch), value) for value in values]
        return [(loss, value) for loss, value in found if math.isfinite(loss)]

    known = losses(GRID)
    if len(known) < len(GRID) // 2:
        raise NotApplicable("the loss does not accept outputs of any magnitude")
    least, best = min(known)
    if abs(best) == GRID[-1] or least == max(known)[0]:
        raise NotApplicable("no constant output minimizes this loss")
    place = GRID.index(best)
    before, after = GRID[place - 1], GRID[place + 1]
    return min([(least, best), *losses([before + (after - before) * k / 10 for k in range(1, 10)])])[1]


@check(
    basis="statistic",
    explains=(
        "initial-loss-off",
        "cannot-overfit-batch",
        "output-bias-ignores-prior",
        "exploding-gradients",
        "learning-rate-too-high",
        "learning-rate-too-low",
        "worse-than-baseline",
    ),
)
def unscaled_targets(
    reach: TargetReach,
    *,
    large: float = 30.0,  # outputs start near unit scale, and a step of Adam moves them by hundredths; our choice
    small: float = 1e-3,  # targets with a smaller range than this are dominated by the initial outputs; our choice
    margin: float = 0.25,  # of the range of best outputs, by which the mean may lie outside of it; our choice
    narrow: float = 0.02,  # standard deviation of the outputs over that range; our choice
    wide: float = 100.0,  # the same, for targets that are too small; our choice
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
    low, high = sorted((reach.lowest, reach.highest))
    inside = low - margin * reach.spread <= reach.mean <= high + margin * reach.spread
    if size > large and not inside:
        says = f"the mean output is {reach.mean:.3g} but the loss is minimal at {reach.best:.3g}"
    elif reach.spread / 2 > large and abs(reach.mean) < large and reach.std < narrow * reach.spread:
        says = f"the outputs have a standard deviation of {reach.std:.3g} instead of about {reach.spread / 2:.3g}"
    elif 0 < reach.spread < small and reach.std > wide * reach.spread:
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
        remedies=(Remedy("Standardize the targets.", "y = (y - y.mean()) / y.std()", Patch("standardize-targets")),),
        exhibit=Bars(
            ("mean output", "optimum, low targets", "optimum", "optimum, high targets"),
            (reach.mean, reach.lowest, reach.best, reach.highest),
            title="Outputs and loss-minimizing outputs",
        ),
    )
