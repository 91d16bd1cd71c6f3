"""Tail replay: run only the recorded ops behind an exchanged value, up to the loss."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from nbdebug.experiments.tape.ops import Op, Recording, Use, map_tensors, tensors_of
from nbdebug.experiments.tape.program import TapeUnreadable

__all__ = ["replayed", "tail_of"]


def tail_of(recording: Recording, exchanged: set[int], root: int) -> list[Op]:
    """Return the ops that depend on the exchanged values and lead to the loss, in order."""
    depends, dirty = [], set(exchanged)
    for op in recording.ops:
        if dirty.intersection(op.inputs):
            depends.append(op)
            dirty.update(op.made)
    tail, wanted = [], {root}
    for op in reversed(depends):
        if wanted.intersection(op.made):
            tail.append(op)
            wanted.update(op.inputs)
    return tail[::-1]


def replayed(recording: Recording, exchange: dict[int, torch.Tensor], root: int) -> torch.Tensor:
    """Return the loss as it would be with other values; it is differentiable with respect to these."""
    tail = tail_of(recording, set(exchange), root)
    _refuse(recording, tail, set(exchange), root)
    known = dict(exchange)
    for op in tail:
        known = {**known, **_run(recording, op, known), **exchange}
    if root not in known:
        raise TapeUnreadable("the loss does not depend on the exchanged value")
    return known[root]


def _refuse(recording: Recording, tail: list[Op], exchanged: set[int], root: int) -> None:
    for op in tail:
        if op.name == "grad":
            raise TapeUnreadable("the loss contains a gradient by torch.autograd.grad behind the prediction")
    dirty = exchanged.union(*(op.made for op in tail))
    end = recording.values[root].producer
    if any(number in dirty and at <= end for number, at in recording.escapes):
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
