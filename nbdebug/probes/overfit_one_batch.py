"""Train a twin on one batch and on nothing else."""

from __future__ import annotations

import math

import torch

from nbdebug.control import Control
from nbdebug.evidence import Overfit, TrialRun
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.twin import Twin
from nbdebug.twin.task import class_dim, task_of

__all__ = ["overfit_one_batch"]

STEPS = 200
SAMPLES = 16  # TheDeepChecker: 16 samples
SECONDS = 20.0


@probe
def overfit_one_batch(twin: Twin, trial: TrialRun, control: Control) -> Overfit:
    """Train on one small batch again and again, as the optimizer given does it, until the answer is clear."""
    require_run(trial)
    batch = twin.batch().head(SAMPLES)
    twin.ready_to_train()
    losses: list[float] = []
    stopped = ""
    for step in range(STEPS):
        control.progress(step / STEPS, f"overfitting one batch: step {step} of {STEPS}")
        losses.append(twin.plain_step(batch))
        stopped = _is_clear(losses)
        if stopped:
            break
    group = twin.optimizer.param_groups[0]
    return Overfit(
        losses=tuple(losses),
        outcome=stopped or _outcome(losses),
        first=losses[0],
        last=losses[-1],
        best=min((v for v in losses if math.isfinite(v)), default=math.nan),
        steps=len(losses),
        batch_size=batch.size,
        optimizer=type(twin.optimizer).__name__.replace("_LateAdam", "Adam"),
        learning_rate=float(group["lr"]),
        accuracy=_accuracy(twin, batch),
        stopped_early=stopped,
    )


def _is_clear(losses: list[float]) -> str:
    """Say the answer as soon as it is certain."""
    if not math.isfinite(losses[-1]):
        return "not-finite"
    if len(losses) > 10 and losses[-1] > 100 * max(losses[0], 1e-6):
        return "explodes"
    if len(losses) > 10 and max(losses[-3:]) < 0.02 * losses[0]:
        return "memorised"
    return ""


def _outcome(losses: list[float]) -> str:
    """Judge a whole curve: where it ended against where it began, and how it got there."""
    tenth = max(1, len(losses) // 10)
    start, end = losses[0], sorted(losses[-tenth:])[tenth // 2]
    if end < 0.1 * start:  # torchtest2: to 10 % of the start
        return "memorised"
    if end > 1.1 * start:
        return "rises"
    middle = sorted(losses[-5 * tenth : -4 * tenth] or losses[:1])[0]
    if end < 0.95 * middle:
        return "falling"
    jumps = [abs(b - a) for a, b in zip(losses[-5 * tenth :], losses[-5 * tenth + 1 :], strict=False)]
    if jumps and sum(jumps) / len(jumps) > 0.1 * start:
        return "oscillates"
    return "plateaus"


@torch.no_grad()
def _accuracy(twin: Twin, batch: Batch) -> float | None:
    outcome = twin.run(batch)
    predicted, target = outcome.predicted, batch.target
    if predicted is None or not isinstance(target, torch.Tensor):
        return None
    task = task_of(outcome.output, batch)
    dim = class_dim(predicted, target)
    if task.kind != "classification" or dim is None or target.shape == predicted.shape:
        return None
    return float((predicted.argmax(dim) == target).double().mean())
