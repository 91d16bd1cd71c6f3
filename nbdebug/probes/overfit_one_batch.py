"""Train a twin on one batch and on nothing else."""

from __future__ import annotations

import torch

from nbdebug.control import Control
from nbdebug.errors import NbdebugError
from nbdebug.evidence import Overfit, TrialRun
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.twin import Twin
from nbdebug.twin.training import hurry, train_on

__all__ = ["overfit_one_batch"]

STEPS = 150
SAMPLES = 16  # TheDeepChecker: 16 samples


@probe(quick=False)
def overfit_one_batch(twin: Twin, trial: TrialRun, control: Control) -> Overfit:
    """Overfit a single small batch with your optimizer."""
    require_run(trial)
    batch = twin.batch().head(SAMPLES)
    hurry(twin)
    curve = train_on(twin, batch, STEPS, lambda f: control.progress(0.7 * f, "overfitting one batch"))
    swapped = _with_swapped_inputs(twin, batch)
    pair = None
    if not curve.learned and batch.size > 2:
        again = twin.fresh()
        hurry(again)
        pair = train_on(
            again, _two_apart(batch), STEPS, lambda f: control.progress(0.7 + 0.3 * f, "overfitting two samples")
        )
    name = "Adam" if twin.owns_optimizer else type(twin.optimizer).__name__
    return Overfit(curve, batch.size, name, twin.owns_optimizer, pair, swapped)


@torch.no_grad()
def _with_swapped_inputs(twin: Twin, batch: Batch) -> float | None:
    """Give the loss of what was learned when each sample gets its neighbor's inputs; None where that cannot be."""
    if not batch.has_target or batch.size < 2:
        return None
    turned = batch.map_inputs(lambda _, t: t.roll(1, 0) if t.dim() and len(t) == batch.size else t)
    try:
        return float(twin.run(turned).loss)
    except NbdebugError:
        raise
    except Exception:  # parts that belong together were parted, as the nodes of a graph and its edges
        return None


def _two_apart(batch: Batch) -> Batch:
    """Choose two samples whose targets differ, where there are such."""
    target = batch.target
    other = 1
    if isinstance(target, torch.Tensor) and target.dim() > 0 and target.shape[0] == batch.size:
        differs = [i for i in range(1, batch.size) if not torch.equal(target[i], target[0])]
        other = differs[0] if differs else 1
    return batch.select(torch.tensor([0, other]))
