"""The loss is summed over the batch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from nbdebug.charts import Bars
from nbdebug.core.control import Control
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.sample_dataset import seed_torch
from nbdebug.setup.user_code import required_user_code

__all__ = ["BatchScaling", "batch_scaling", "loss_sums_over_batch"]


@dataclass(frozen=True)
class BatchScaling:
    """The loss of a batch and of the same batch twice over.

    Where the loss sums and the optimizer does not adapt, `ends` are the losses after a few steps relative to the
    first, with the learning rate given and with that divided by the batch size.
    """

    batch_size: int
    once: float
    twice: float
    place: str
    optimizer: str = ""
    learning_rate: float = math.nan
    ends: tuple[float, float] | None = None

    @property
    def growth(self) -> float:
        """How many times the loss of the double batch is that of the single one."""
        return self.twice / self.once if self.once else math.nan


STEPS = 10


@probe(quick=False)
def batch_scaling(sandbox: Sandbox, trial: TrialRun, control: Control) -> BatchScaling:
    """Compare the loss of a batch with that of the batch repeated twice."""
    require_run(trial)
    batch = sandbox.batch()
    double = batch.select(torch.arange(batch.size).repeat(2))
    grad = torch.no_grad() if sandbox.train_step is None else torch.enable_grad()
    failing = "a batch of twice the size fails in eval mode ({kind})"  # so does a step that cannot learn there
    with required_user_code(failing), sandbox.mode(training=False), grad:
        once, twice = (_loss(sandbox, each) for each in (batch, double))
    if not math.isfinite(once) or not math.isfinite(twice) or once == 0:
        raise NotApplicable("the loss is not a finite number")
    place = "train_step" if sandbox.train_step else "compute_loss" if sandbox.compute_loss else "loss_fn"
    facts = BatchScaling(batch.size, once, twice, place)
    if (
        abs(facts.growth - 2) > 0.02
        or not isinstance(sandbox.optimizer, torch.optim.SGD)
        or sandbox.train_step is not None
    ):
        return facts
    rate = float(sandbox.optimizer.param_groups[0]["lr"])
    ends = (_end(sandbox.fresh(), batch, 1.0), _end(sandbox.fresh(), batch, 1 / batch.size))
    return BatchScaling(batch.size, once, twice, place, type(sandbox.optimizer).__name__, rate, ends)


def _loss(sandbox: Sandbox, batch: Batch) -> float:
    seed_torch(0)
    if sandbox.train_step is not None:
        sandbox.optimizer.step = lambda closure=None: closure() if closure is not None else None
        return sandbox.step(batch)
    loss = sandbox.run(batch).loss
    return float(loss.detach().mean()) if isinstance(loss, torch.Tensor) else math.nan


def _end(sandbox: Sandbox, batch: Batch, factor: float) -> float:
    """Return the loss after a few steps relative to the first one."""
    sandbox.ready_to_train()
    for group in sandbox.optimizer.param_groups:
        group["lr"] = group["lr"] * factor
    losses = []
    for _ in range(STEPS):
        losses.append(sandbox.plain_step(batch))
        if not math.isfinite(losses[-1]) or abs(losses[-1]) > 1e3 * max(abs(losses[0]), 1e-9):
            return math.inf
    return losses[-1] / losses[0] if losses[0] else math.nan


@check(
    basis="statistic",
    explains=("learning-rate-too-high", "exploding-gradients", "cannot-overfit-batch", "update-ratio-off"),
)
def loss_sums_over_batch(
    scaling: BatchScaling,
    *,
    growth: float = 0.02,  # a summed loss doubles with twice the samples; rounding error is far smaller; our choice
    rises: float = 1.5,  # relative to the initial loss, after ten steps on one batch; our choice
) -> Iterator[Finding]:
    """The loss is summed over the batch, so it grows with the batch size.

    nbdebug computes the loss of one batch and of the same batch repeated twice: a mean stays the same, a sum doubles.
    With SGD it then takes a few steps with your learning rate, and with the learning rate divided by the batch size.

    Why it matters: the gradients grow with the batch size as well. A learning rate tuned for one batch size is too high
    for a larger one, and losses of runs with different batch sizes cannot be compared. Adaptive optimizers hide it.

    What to try: use `reduction="mean"`, or divide the learning rate by the batch size.
    """
    if abs(scaling.growth - 2) > growth:
        return
    diverges = scaling.ends is not None and scaling.ends[0] > rises and scaling.ends[1] < 1
    trouble = ""
    if diverges and scaling.ends is not None:
        end = "diverges" if math.isinf(scaling.ends[0]) else f"grows {scaling.ends[0]:.3g}-fold"
        trouble = (
            f" With `{scaling.optimizer}` (lr={scaling.learning_rate:g}) it {end} within ten steps; with lr divided by "
            f"the batch size it falls."
        )
    yield Finding(
        f"The loss is summed over the batch: it is {scaling.once:.3g} for {scaling.batch_size} samples and "
        f"{scaling.twice:.3g} for the same batch repeated twice.{trouble}",
        where=scaling.place,
        severity="suspect" if diverges else "note",
        evidence={
            "loss of the batch": scaling.once,
            "loss of the batch twice over": scaling.twice,
            "loss after ten steps, relative": str(scaling.ends),
            "threshold": f"{rises} times the initial loss",
            "source": "37 reasons, 18",
        },
        remedies=(
            Remedy(
                "Average the loss over the batch.",
                'loss_fn = nn.CrossEntropyLoss(reduction="mean")',
                Patch("average-loss"),
            ),
            Remedy("Divide the sum by the batch size.", "loss = loss / len(x)"),
        ),
        exhibit=Bars(("one batch", "batch repeated twice"), (scaling.once, scaling.twice), unit="loss"),
    )
