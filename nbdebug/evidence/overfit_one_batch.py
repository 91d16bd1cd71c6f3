"""Train a copy on one batch and on nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nbdebug.core.control import Control
from nbdebug.core.registry import probe
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.learning_curve import Curve
from nbdebug.experiments.train_briefly import hurry, train_on, with_loss
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.user_code import user_code

__all__ = ["Overfit", "overfit_one_batch"]


@dataclass(frozen=True)
class Overfit:
    """A copy trained on one small batch and on nothing else; where that failed, also on two samples alone.

    `swapped` is the loss that the trained copy has when each sample is given the inputs of another.
    """

    curve: Curve
    batch_size: int
    optimizer: str
    optimizer_assumed: bool
    pair: Curve | None = None
    swapped: float | None = None

    @property
    def outcome(self) -> str:
        """How the training on the batch went."""
        return self.curve.outcome


STEPS = 150
SAMPLES = 16  # TheDeepChecker: 16 samples


@probe(quick=False)
def overfit_one_batch(sandbox: Sandbox, trial: TrialRun, control: Control) -> Overfit:
    """Overfit a single small batch with your optimizer."""
    require_run(trial)
    batch = sandbox.batch().head(SAMPLES)
    hurry(sandbox)
    losses: list[float] = []
    tell = lambda f: control.progress(0.7 * f, with_loss("overfitting one batch", losses))  # noqa: E731
    curve = train_on(sandbox, batch, STEPS, tell, losses)
    swapped = _with_swapped_inputs(sandbox, batch)
    pair = None
    if not curve.learned and batch.size > 2:
        again = sandbox.fresh()
        hurry(again)
        pair = train_on(
            again, _two_apart(batch), STEPS, lambda f: control.progress(0.7 + 0.3 * f, "overfitting two samples")
        )
    name = "Adam" if sandbox.owns_optimizer else type(sandbox.optimizer).__name__
    return Overfit(curve, batch.size, name, sandbox.owns_optimizer, pair, swapped)


@torch.no_grad()
def _with_swapped_inputs(sandbox: Sandbox, batch: Batch) -> float | None:
    """Return the loss of what was learned when each sample gets its neighbor's inputs; None where that cannot be."""
    if not batch.has_target or batch.size < 2:
        return None
    turned = batch.map_inputs(lambda _, t: t.roll(1, 0) if t.dim() and len(t) == batch.size else t)
    with user_code():  # parts that belong together may be parted, as the nodes of a graph and its edges
        return float(sandbox.run(turned).loss)
    return None


def _two_apart(batch: Batch) -> Batch:
    """Choose two samples whose targets differ, where there are such."""
    target = batch.target
    other = 1
    if isinstance(target, torch.Tensor) and target.dim() > 0 and target.shape[0] == batch.size:
        differs = [i for i in range(1, batch.size) if not torch.equal(target[i], target[0])]
        other = differs[0] if differs else 1
    return batch.select(torch.tensor([0, other]))
