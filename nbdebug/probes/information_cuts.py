"""Does everything have to pass through a layer that is too narrow?"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from nbdebug.control import Control
from nbdebug.errors import NotApplicable
from nbdebug.evidence import InformationCuts, NarrowCut, Task, TrialRun
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.twin import Twin
from nbdebug.twin.race import plain_adam, race
from nbdebug.twin.taps import tapped
from nbdebug.twin.task import task_of
from nbdebug.twin.trace import Call, traced, weighted_calls
from nbdebug.twin.training import fit_asked_for

__all__ = ["information_cuts"]

SAMPLES = 64
STEPS = 300
RATE = 1e-2
EXPLAINED = 0.99  # of the variance of the targets


@probe(quick=False)
def information_cuts(twin: Twin, trial: TrialRun, control: Control) -> InformationCuts:
    """Swap the outputs of narrow layers between samples to find bottlenecks."""
    require_run(trial)
    batch = twin.batch().head(SAMPLES)
    with twin.mode(training=False):
        trace = traced(twin, batch)
        assert trace.outcome is not None
        answer, task = trace.outcome.predicted, task_of(trace.outcome.output, batch)
        if answer is None or answer.dim() < 2 or answer.shape[0] != batch.size or batch.size < 4:
            raise NotApplicable("the model returns no tensor with one row per sample")
        needed, reason = _needed(task, batch, answer)
        paths = [call.path for call in trace.calls]
        narrow = [
            (call, width)
            for call in weighted_calls(trace)
            if call.is_leaf and paths.count(call.path) == 1 and (width := _width(call, answer)) < needed
        ]
        cuts = tuple(
            NarrowCut(call.path, width, needed, reason)
            for call, width in narrow
            if _carries_all(twin, batch, call.path, answer)
        )
    kind = "reconstruction" if task.kind == "regression" and _gives_back(batch) else task.kind
    if not cuts:
        return InformationCuts((), kind)
    race(
        twin, [batch], plain_adam(twin, RATE), STEPS, lambda f: control.progress(f, "training through the narrow layer")
    )
    fit = fit_asked_for(twin, batch)
    return InformationCuts(cuts, kind, fit.value if fit else None, fit.measure if fit else "", batch.size)


def _needed(task: Task, batch: Batch, answer: torch.Tensor) -> tuple[float, str]:
    """Give how many numbers the answer takes: bits for classes, dimensions for vectors."""
    target = batch.target
    if task.kind == "classification" and isinstance(target, torch.Tensor):
        known = target.argmax(1) if target.shape == answer.shape else target
        classes = int(known[known >= 0].unique().numel())
        return math.log2(max(classes, 1)), f"{classes} classes"
    if task.kind in ("regression", "reconstruction") and isinstance(target, torch.Tensor) and target.dim() == 2:
        values = target.double() - target.double().mean(0)
        shares = torch.linalg.svdvals(values).square().cumsum(0)
        if float(shares[-1]) > 0:
            rank = 1 + int((shares < EXPLAINED * shares[-1]).sum())
            return float(rank), f"targets of rank {rank}"
    raise NotApplicable(f"the required width is unknown for this kind of task ({task.kind})")


def _gives_back(batch: Batch) -> bool:
    """Whether the target is an input over again, as it stands or with noise: then a narrow layer is the purpose."""
    target = batch.target.double()
    spread = float((target - target.mean(0)).square().sum())
    copies = [x.double() for x in batch.inputs.values() if x.numel() == target.numel() and not x.is_complex()]
    return any(float((x.reshape(target.shape) - target).square().sum()) < 0.5 * spread for x in copies)


def _width(call: Call, answer: torch.Tensor) -> int:
    """Count the numbers that a layer gives for one answer: for a sample, or for a place of a sequence."""
    assert call.output is not None
    if call.output.dim() == 3 and answer.dim() == 3 and call.output.shape[:2] == answer.shape[:2]:
        return int(call.output.shape[2])
    return math.prod(call.output.shape[1:])


def _carries_all(twin: Twin, batch: Batch, path: str, answer: torch.Tensor) -> bool:
    """Whether turning this layer's output round among the samples turns the answers round in the same way."""

    def turn(where: str, module: nn.Module, inputs: Any, output: Any) -> Any:
        return output.roll(1, 0) if where == path and isinstance(output, torch.Tensor) else None

    with tapped(twin.model, after=turn):
        turned = twin.run(batch).predicted
    if turned is None or turned.shape != answer.shape:
        return False
    answer, turned = answer.detach(), turned.detach()
    spread = float((answer - answer.mean(0)).abs().max())
    return spread > 0 and float((turned - answer.roll(1, 0)).abs().max()) < 1e-3 * spread
