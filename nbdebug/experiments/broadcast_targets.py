"""Whether a target meets its prediction in another shape, so that each output is compared with each target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.errors import Cancelled, NbdebugError, OutOfTime
from nbdebug.experiments.tape import Tape, TapeUnreadable, record
from nbdebug.experiments.tape.ops import Recording
from nbdebug.experiments.tape.replay import replayed
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch

__all__ = ["Broadcast", "broadcast_target", "is_shaped_for_pairs"]

_INSERTS_DIM = ("unsqueeze", "__getitem__", "expand", "repeat", "outer")
_SAME_VALUES = ("to", "float", "double", "half", "type", "type_as", "detach", "clone", "contiguous", "data")


@dataclass(frozen=True)
class Broadcast:
    """Shapes that meet in the loss, and the share of a target's effect on other samples, as is and reshaped."""

    output_shape: tuple[int, ...]
    target_shape: tuple[int, ...]
    spill: float
    fixed: float


def broadcast_target(sandbox: Sandbox, batch: Batch) -> Broadcast | None:
    """Read off the tape which shapes the loss compares; None unless as many values of another rank are broadcast."""
    try:
        tape = record(sandbox, batch)
        if not _broadcasts(tape):
            return None
        assert tape.target is not None
        shapes = tape.prediction.shape, tape.target.shape
        target = tape.target.value
        return Broadcast(*shapes, _spill(tape, target), _spill(tape, target.reshape(shapes[0])))
    except (Cancelled, OutOfTime):
        raise
    except (NbdebugError, RuntimeError, ValueError, TypeError, LookupError, AttributeError, AssertionError):
        return None


def _broadcasts(tape: Tape) -> bool:
    comparison = tape.main.comparison
    if comparison is None:
        return False
    prediction, target = (tape.recording.values[n] for n in (comparison.prediction, comparison.target))
    if len(prediction.shape) == len(target.shape) or prediction.numel != target.numel or prediction.numel < 4:
        return False
    try:
        together = torch.broadcast_shapes(prediction.shape, target.shape)
    except RuntimeError:
        return False
    apart = [is_shaped_for_pairs(tape.recording, n) for n in (comparison.prediction, comparison.target)]
    return torch.Size(together).numel() > prediction.numel and not any(apart)


def is_shaped_for_pairs(recording: Recording, number: int) -> bool:
    """Whether the loss itself has just given the tensor a dimension, as code that compares all pairs does."""
    op = recording.producer(number)
    while op is not None and op.name in _SAME_VALUES and op.inputs:
        op = recording.producer(op.inputs[0])
    return op is not None and not op.module and op.name in _INSERTS_DIM and _grows(recording, op)


def _grows(recording: Recording, op: Any) -> bool:
    before, after = recording.values[op.inputs[0]].shape, recording.values[op.outputs[0]].shape
    return len(after) > len(before)


def _spill(tape: Tape, target: torch.Tensor) -> float:
    """Return the share of the change of the gradient, when one target changes, that falls on other outputs."""
    low, high = target.clone(), target.clone()
    room = 5 * (target.max() - target.min()) if target.is_floating_point() else 0
    low.view(-1)[0], high.view(-1)[0] = target.min() - room, target.max() + room
    change = (_gradient(tape, high) - _gradient(tape, low)).abs().reshape(-1)
    if not float(change.sum()) > 0:
        raise TapeUnreadable("the gradient does not depend on the target")
    return 1 - float(change[0] / change.sum())


def _gradient(tape: Tape, target: torch.Tensor) -> torch.Tensor:
    comparison = tape.main.comparison
    assert comparison is not None
    generator = torch.Generator().manual_seed(0)
    like = tape.prediction.value
    values = (0.1 + 0.8 * torch.rand(like.shape, generator=generator)).to(like).requires_grad_()
    exchange = {comparison.prediction: values, comparison.target: target}
    with torch.enable_grad():
        loss = replayed(tape.recording, exchange, tape.main.root, reads_matter=tape.reads_matter)
        (found,) = torch.autograd.grad(loss, values)
    return found
