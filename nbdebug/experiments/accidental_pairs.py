"""Operands of a recorded run, one value per sample each, that are broadcast to all pairs of samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nbdebug.experiments.broadcast_targets import is_shaped_for_pairs
from nbdebug.experiments.tape import Taint
from nbdebug.experiments.tape.ops import Op, Recording

__all__ = ["AccidentalPairs", "accidental_pairs"]

_JOINED = ("add", "radd", "sub", "rsub", "mul", "rmul", "div", "rdiv", "add_", "sub_", "mul_")
_POINTWISE = (
    *_JOINED, "neg", "pow", "square", "abs", "exp", "log", "clamp", "clamp_min", "clamp_max", "min", "max", "minimum",
    "maximum", "relu", "sigmoid", "tanh", "softplus", "smooth_l1_loss", "mse_loss", "l1_loss", "huber_loss", "where",
    "sqrt", "to", "float", "double", "clone", "detach", "contiguous",
)  # fmt: skip
_SAME_VALUES = (
    "squeeze", "unsqueeze", "view", "reshape", "flatten", "detach", "T", "t", "transpose", "__getitem__", "to", "float",
    "data", "clone",
)  # fmt: skip


@dataclass(frozen=True)
class AccidentalPairs:
    """An op that makes a square of two columns, all of which is then averaged or summed."""

    op: str
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    module: str


def accidental_pairs(recording: Recording, samples: int) -> Iterator[AccidentalPairs]:
    """Yield the ops that pair each sample with each other one although nothing reads the pairs one by one."""
    for op in recording.ops:
        inputs = list(dict.fromkeys(op.inputs))
        if op.name not in _JOINED or len(inputs) != 2 or len(op.outputs) != 1:
            continue
        shapes = tuple(recording.values[n].shape for n in inputs)
        if sorted(shapes, key=len) != [(samples,), (samples, 1)] or samples < 3:
            continue
        if any(is_shaped_for_pairs(recording, n) for n in inputs) or _origin(recording, inputs[0]) == _origin(
            recording, inputs[1]
        ):
            continue
        taints = [recording.values[n].taint for n in inputs]
        if all(t & Taint.BATCH for t in taints) and _is_reduced(recording, op, samples):
            yield AccidentalPairs(op.name, (shapes[0], shapes[1]), op.module)


def _origin(recording: Recording, number: int) -> int:
    """Return the value that another one is a view of."""
    op = recording.producer(number)
    while op is not None and op.name in _SAME_VALUES and op.inputs:
        number = op.inputs[0]
        op = recording.producer(number)
    return number


def _is_reduced(recording: Recording, made: Op, samples: int) -> bool:
    """Whether all that becomes of the pairs is one number, by ops that treat each of them alike."""
    pairs, is_reduced = {made.outputs[0]}, False
    for op in recording.ops[made.index + 1 :]:
        if not pairs.intersection(op.inputs):
            continue
        values = [recording.values[n] for n in op.made]
        if op.name in ("mean", "sum", "nanmean", *_POINTWISE) and all(value.numel == 1 for value in values):
            is_reduced = True
            continue
        others = [recording.values[n] for n in op.inputs if n not in pairs]
        if op.name not in _POINTWISE or any(other.numel >= samples**2 for other in others):
            return False
        pairs.update(op.made)
    return is_reduced
