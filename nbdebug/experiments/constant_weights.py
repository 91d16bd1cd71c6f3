"""Softmaxes of a recorded run over an axis of length one, whose weights are summed over another axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nbdebug.experiments.axes import PRODUCTS, is_contracted, moved_axis
from nbdebug.experiments.tape.ops import Op, Recording, Use

__all__ = ["ConstantWeight", "constant_weights"]

SUMS = ("sum", "mean", "nansum", "nanmean")
TIMES = ("mul", "mul_", "rmul")


@dataclass(frozen=True)
class ConstantWeight:
    """A softmax whose weights are all 1: the axis of length one, and the one that is summed over."""

    module: str
    shape: tuple[int, ...]
    axis: int
    summed: int


def constant_weights(recording: Recording) -> Iterator[ConstantWeight]:
    """Yield every softmax with trained scores whose own axis has length one, while a longer one is summed over.

    An attention over one key and a mixture of one component are summed over the axis of their softmax.
    """
    users: dict[int, list[Op]] = {}
    for op in recording.ops:
        for number in set(op.inputs):
            users.setdefault(number, []).append(op)
    for op in recording.ops:
        axis = op.kwargs.get("dim", op.args[1] if len(op.args) > 1 else None)
        if op.name != "softmax" or not isinstance(axis, int) or len(op.outputs) != 1 or not op.inputs:
            continue
        shape = recording.values[op.outputs[0]].shape
        if not shape or shape[axis] != 1 or not recording.values[op.inputs[0]].requires_grad:
            continue
        longer = [a for a in range(1, len(shape)) if shape[a] > 1]
        summed = next((a for a in longer if _is_summed(recording, users, op.outputs[0], a)), None)
        if summed is not None:
            yield ConstantWeight(op.module, shape, axis % len(shape), summed)


def _is_summed(recording: Recording, users: dict[int, list[Op]], number: int, axis: int) -> bool:
    """Whether weights are multiplied with values and summed over an axis."""
    stack, seen = [(number, axis, False)], set[int]()
    while stack:
        here, at, is_product = stack.pop()
        if here in seen:
            continue
        seen.add(here)
        for op in users.get(here, []):
            if op.name in PRODUCTS and is_contracted(recording, op, here, at):
                return True
            if op.name in SUMS and is_product and at in _dims(op, len(recording.values[here].shape)):
                return True
            if op.name in TIMES and len(op.outputs) == 1:
                made = recording.values[op.outputs[0]].shape
                stack.append((op.outputs[0], at + len(made) - len(recording.values[here].shape), True))
            elif (moved := moved_axis(recording, op, here, at)) is not None:
                stack.append((*moved, is_product))
    return False


def _dims(op: Op, count: int) -> tuple[int, ...]:
    given = op.kwargs.get("dim", op.kwargs.get("axis", op.args[1] if len(op.args) > 1 else None))
    dims = given if isinstance(given, (tuple, list)) else (given,)
    return tuple(d % count for d in dims if isinstance(d, int) and not isinstance(d, Use))
