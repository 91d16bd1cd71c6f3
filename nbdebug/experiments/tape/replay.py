"""Tail replay: run only the recorded ops behind an exchanged value, up to the loss."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from nbdebug.experiments.tape.ops import Op, Recording, Use, tensors_of
from nbdebug.experiments.tape.program import TapeUnreadable
from nbdebug.setup.nested import map_tensors

__all__ = ["replayed", "tail_of"]


def tail_of(recording: Recording, exchanged: set[int], root: int) -> list[Op]:
    """Return the ops that depend on the exchanged values and lead to the loss, in order."""
    tail, wanted = [], {root}
    for op in reversed(_dependents(recording, exchanged)):
        if wanted.intersection(op.made):
            tail.append(op)
            wanted.update(op.inputs)
    return tail[::-1]


def replayed(
    recording: Recording, exchange: dict[int, torch.Tensor], root: int, *, reads_matter: bool = True
) -> torch.Tensor:
    """Return the loss as it would be with other values; it is differentiable with respect to these."""
    if reads_matter:
        _refuse_escapes(recording, set(exchange), root)
    known = dict(exchange)
    for op in tail_of(recording, set(exchange), root):
        if op.name == "grad":
            raise TapeUnreadable("the loss contains a gradient by torch.autograd.grad behind the prediction")
        known = {**known, **_run(recording, op, known), **exchange}
    if root not in known:
        raise TapeUnreadable("the loss does not depend on the exchanged value")
    return known[root]


def _dependents(recording: Recording, exchanged: set[int]) -> list[Op]:
    found, reached = [], set(exchanged)
    for op in recording.ops:
        if reached.intersection(op.inputs):
            found.append(op)
            reached.update(op.made)
    return found


def _refuse_escapes(recording: Recording, exchanged: set[int], root: int) -> None:
    """Refuse where Python code has read a value that would be another one: what it did with it cannot be repeated."""
    end = recording.values[root].producer
    read = {number for number, at in recording.escapes if at <= end}
    if read and read.intersection(exchanged.union(*(op.made for op in _dependents(recording, exchanged)))):
        raise TapeUnreadable("a value behind the prediction is turned into a Python number before the loss is computed")


def _run(recording: Recording, op: Op, known: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
    """Run one op with the values known so far, and return those that it makes."""
    own = {n: _value(recording, n, known).clone() for n in op.changed}

    def fill(use: Any) -> torch.Tensor:
        return own[use.number] if use.number in own else _value(recording, use.number, known)

    args, kwargs = map_tensors(fill, (op.args, op.kwargs), Use)
    with _conditions(op):
        result = op.func(*args, **kwargs)
    made = dict(zip(op.outputs, tensors_of(result), strict=False))
    return {**made, **{new: own[old] for old, new in op.changed.items()}}


def _value(recording: Recording, number: int, known: dict[int, torch.Tensor]) -> torch.Tensor:
    if number in known:
        return known[number]
    tensor = recording.values[number].tensor
    if tensor is None:
        raise TapeUnreadable("an operand behind the prediction was modified in place, or is no longer kept")
    return tensor.detach()


@contextmanager
def _conditions(op: Op) -> Iterator[None]:
    """Run an op as it was run: with its autocast, its grad mode, and the same random draws."""
    device, dtype = op.autocast or ("cpu", torch.bfloat16)
    before = op.random_state[0].get_state() if op.random_state is not None else None
    try:
        if op.random_state is not None:
            op.random_state[0].set_state(op.random_state[1])
        with torch.set_grad_enabled(op.has_grad):
            if op.autocast is None:
                yield
            else:
                with torch.autocast(device, dtype, cache_enabled=False):
                    yield
    finally:
        if op.random_state is not None and before is not None:
            op.random_state[0].set_state(before)
