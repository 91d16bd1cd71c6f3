"""Compare the loss in training and in eval mode, before and after a short training."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from nbdebug.control import Control
from nbdebug.errors import NbdebugError, NotApplicable, OutOfTime
from nbdebug.evidence import FirstPass, ModeGap, TrialRun
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.twin import Twin
from nbdebug.twin.taps import first_tensor, tapped

__all__ = ["mode_gap"]

BATCHES, SAMPLES, STEPS, SETTLING = 8, 256, 80, 40
LOOK = 10  # steps between two looks whether enough was learned
ENOUGH = 0.4  # of the loss: four times what the check asks for, so that what is lost again stands out
SMALL = 0.25  # of what was learned: half of what the check calls lost
SECONDS = 10.0


@probe(quick=False)
def mode_gap(twin: Twin, trial: TrialRun, first: FirstPass, control: Control) -> ModeGap:
    """Train briefly, update BatchNorm statistics, and compare the loss in train and eval mode."""
    require_run(trial)
    batches = twin.batches(min(BATCHES, max(2, SAMPLES // max(1, twin.batch().size))))
    given = _loss(twin, batches, True), _loss(twin, batches, False)
    if _same_in_both(twin, batches[0]):
        raise NotApplicable("the model behaves identically in train and eval mode")
    twin.ready_to_train()
    steps = _train(twin, batches, control, lambda loss: given[0] - loss > ENOUGH * abs(given[0]))
    after = _loss(twin, batches, True), _loss(twin, batches, False)
    settled = after[1]
    if after[1] - after[0] > SMALL * (given[0] - after[0]):  # worth a longer look
        steps += _train(twin, batches, control, lambda _: False, STEPS - steps)
        after = _loss(twin, batches, True), _loss(twin, batches, False)
        _settle(twin, batches, control)
        settled = _loss(twin, batches, False)
    place, module = _first_apart(twin, batches[0])
    return ModeGap(*given, first.chance_loss, given[0], steps, *after, settled, place, module)


def _train(
    twin: Twin, batches: list[Batch], control: Control, is_enough: Callable[[float], bool], most: int = STEPS
) -> int:
    """Train until enough was learned, and give the number of steps."""
    losses: list[float] = []
    try:
        with control.limit(SECONDS):
            for step in range(1, most + 1):
                control.progress(0.8 * step / most, "training briefly to compare train and eval mode")
                losses.append(twin.plain_step(batches[step % len(batches)]))
                if step % LOOK == 0 and step > LOOK and is_enough(max(losses[-len(batches) :])):
                    break
    except OutOfTime:
        if control.is_over or (len(losses) < 20 and most == STEPS):
            raise
    return len(losses)


@contextmanager
def _buffers_kept(model: nn.Module) -> Iterator[None]:
    """Put statistics back that a pass in training mode moves on."""
    before = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in before:
                buffer.copy_(value)


@torch.no_grad()
def _loss(twin: Twin, batches: list[Batch], training: bool) -> float:
    """Give the mean loss of these batches in one mode; frozen parts stay as they are in training mode."""
    losses = []
    modes = [(module, module.training) for module in twin.model.modules()]
    try:
        if training:
            twin.ready_to_train()
        else:
            twin.model.eval()
        with _buffers_kept(twin.model):
            losses = [float(twin.run(batch).loss) for batch in batches]
    except NbdebugError:
        raise
    except Exception as error:
        raise NotApplicable(f"the loss cannot be computed in {'train' if training else 'eval'} mode: {error}") from None
    finally:
        for module, mode in modes:
            module.training = mode
    mean = sum(losses) / len(losses)
    if not math.isfinite(mean):
        raise NotApplicable("the loss is not finite")
    return mean


def _same_in_both(twin: Twin, batch: Batch) -> bool:
    return abs(_loss(twin, [batch], True) - _loss(twin, [batch], False)) == 0.0


@torch.no_grad()
def _settle(twin: Twin, batches: list[Batch], control: Control) -> None:
    """Let running statistics catch up with the weights, which stay as they are."""
    for step in range(SETTLING):
        control.progress(0.8 + 0.2 * step / SETTLING, "updating BatchNorm statistics")
        twin.run(batches[step % len(batches)])


def _first_apart(twin: Twin, batch: Batch) -> tuple[str, str]:
    """Name the first module whose output has another mean or spread in eval mode."""
    runs = []
    for training in (True, False):
        seen: dict[str, tuple[str, float, float]] = {}
        with _buffers_kept(twin.model), twin.mode(training), torch.no_grad(), tapped(twin.model, after=_noting(seen)):
            twin.run(batch)
        runs.append(seen)
    for path, (kind, mean, spread) in runs[0].items():
        if path in runs[1]:
            _, other_mean, other_spread = runs[1][path]
            size = max(spread, other_spread, 1e-12)
            if abs(mean - other_mean) > 0.5 * size or not 0.5 < (spread + 1e-12) / (other_spread + 1e-12) < 2:
                return path, kind
    return "model", type(twin.model).__name__


def _noting(seen: dict[str, tuple[str, float, float]]) -> Any:
    def after(path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        tensor = first_tensor(output)
        if tensor is not None and path not in seen and tensor.is_floating_point() and tensor.numel() > 1:
            values = tensor.detach().double()
            seen[path] = type(module).__name__, float(values.mean()), float(values.std())

    return after
