"""The same batch twice over."""

from __future__ import annotations

import math

import torch

from nbdebug.control import Control
from nbdebug.errors import NbdebugError, NotApplicable
from nbdebug.evidence import BatchScaling, TrialRun
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.subject.drawing import seed_torch
from nbdebug.twin import Twin

__all__ = ["batch_scaling"]

STEPS = 10
SECONDS = 10.0


@probe(quick=False)
def batch_scaling(twin: Twin, trial: TrialRun, control: Control) -> BatchScaling:
    """Compare the loss of a batch with that of the batch repeated twice."""
    require_run(trial)
    batch = twin.batch()
    double = batch.select(torch.arange(batch.size).repeat(2))
    with twin.mode(training=False), torch.no_grad() if twin.train_step is None else torch.enable_grad():
        try:
            once, twice = (_loss(twin, each) for each in (batch, double))
        except NbdebugError:
            raise
        except Exception as error:  # a step that learns nothing in eval mode, a batch that cannot be doubled
            raise NotApplicable(f"a batch of twice the size fails in eval mode ({type(error).__name__})") from None
    if not math.isfinite(once) or not math.isfinite(twice) or once == 0:
        raise NotApplicable("the loss is not a finite number")
    place = "train_step" if twin.train_step else "compute_loss" if twin.compute_loss else "loss_fn"
    facts = BatchScaling(batch.size, once, twice, place)
    if abs(facts.growth - 2) > 0.02 or not isinstance(twin.optimizer, torch.optim.SGD) or twin.train_step is not None:
        return facts
    rate = float(twin.optimizer.param_groups[0]["lr"])
    with control.limit(SECONDS):
        ends = (_end(twin.fresh(), batch, 1.0), _end(twin.fresh(), batch, 1 / batch.size))
    return BatchScaling(batch.size, once, twice, place, type(twin.optimizer).__name__, rate, ends)


def _loss(twin: Twin, batch: Batch) -> float:
    seed_torch(0)
    if twin.train_step is not None:
        twin.optimizer.step = lambda closure=None: closure() if closure is not None else None
        return twin.step(batch)
    loss = twin.run(batch).loss
    return float(loss.detach().mean()) if isinstance(loss, torch.Tensor) else math.nan


def _end(twin: Twin, batch: Batch, factor: float) -> float:
    """Give the loss after a few steps relative to the first one."""
    twin.ready_to_train()
    for group in twin.optimizer.param_groups:
        group["lr"] = group["lr"] * factor
    losses = []
    for _ in range(STEPS):
        losses.append(twin.plain_step(batch))
        if not math.isfinite(losses[-1]) or abs(losses[-1]) > 1e3 * max(abs(losses[0]), 1e-9):
            return math.inf
    return losses[-1] / losses[0] if losses[0] else math.nan
