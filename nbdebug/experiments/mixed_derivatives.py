"""Second derivatives of a recorded run that are taken of all first derivatives at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.experiments.tape.ops import Op, Recording, Use
from nbdebug.experiments.tape.walk import SAME_VALUES, given_by_name, tensor_of

__all__ = ["MixedDerivatives", "mixed_derivatives"]

_NAMES = ("outputs", "inputs", "grad_outputs")


@dataclass(frozen=True)
class MixedDerivatives:
    """One call of `autograd.grad` that adds the second derivatives of several columns: `share` are mixed ones.

    `share` is the size of the mixed derivatives relative to all that the call returns.
    """

    columns: int
    share: float
    module: str


def mixed_derivatives(recording: Recording, until: Callable[[int], Recording]) -> Iterator[MixedDerivatives]:
    """Yield the gradients of whole gradients by all of their columns alike, which no operator of physics is.

    `until` runs the program again up to a value, where a backward pass has freed the graph.
    """
    for op in recording.ops:
        if op.name != "grad" or not op.outputs:
            continue
        given = given_by_name(op, _NAMES)
        first, inputs = _gradient_behind(recording, _one(given.get("outputs"))), _one(given.get("inputs"))
        if first is None or inputs is None:
            continue
        inner = given_by_name(first, _NAMES)
        if _one(inner.get("inputs")) != inputs or not _is_even(recording, given.get("grad_outputs")):
            continue
        shape = recording.values[inputs.number].shape
        if len(shape) == 2 and shape[1] > 1:
            share = _mixed_share(recording, first.outputs[0], inputs.number)
            if share is None:
                share = _mixed_share(until(op.outputs[0]), first.outputs[0], inputs.number)
            if share is not None:
                yield MixedDerivatives(shape[1], share, op.module)


def _one(part: Any) -> Use | None:
    part = part[0] if isinstance(part, (list, tuple)) and len(part) == 1 else part
    return part if isinstance(part, Use) else None


def _gradient_behind(recording: Recording, part: Use | None) -> Op | None:
    """Return the call of `autograd.grad` whose whole result is differentiated, or the sum of all of it."""
    op = recording.producer(part.number) if part is not None else None
    while op is not None and (op.name in SAME_VALUES or (op.name == "sum" and len(op.args) == 1 and not op.kwargs)):
        op = recording.producer(op.inputs[0])
    return op if op is not None and op.name == "grad" and len(op.outputs) == 1 else None


def _is_even(recording: Recording, part: Any) -> bool:
    if part is None or part == (None,) or part == [None]:
        return True
    weights = tensor_of(recording, _one(part))
    return weights is not None and bool((weights == weights.flatten()[0]).all())


def _mixed_share(recording: Recording, gradient: int, inputs: int) -> float | None:
    """Return how much of the sum the derivatives of one column by another are; None where no graph is left."""
    if max(gradient, inputs) >= len(recording.values):
        return None
    found, at = recording.values[gradient].tensor, recording.values[inputs].tensor
    if found is None or at is None or not found.requires_grad:
        return None
    try:
        with torch.enable_grad():
            rows = [torch.autograd.grad(column.sum(), at, retain_graph=True)[0] for column in found.unbind(1)]
    except RuntimeError:  # the graph was freed by a backward pass
        return None
    second = torch.stack(rows, 1).double().abs().mean(0)  # by column, and by what it is differentiated by
    total = float(second.sum())
    return float(second.sum() - second.diagonal().sum()) / total if total > 0 else None
