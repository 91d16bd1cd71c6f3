"""Walk back over a recording: what an op is given by name, what a value is a view of, and what it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from nbdebug.experiments.tape.ops import Op, Recording

__all__ = ["SAME_VALUES", "ancestors", "given_by_name", "root_ancestors", "source_of", "tensor_of"]

SAME_VALUES = (
    "squeeze", "unsqueeze", "view", "reshape", "flatten", "detach", "contiguous", "to", "float", "double", "data",
    "clone", "type", "expand", "expand_as", "view_as", "reshape_as", "clone", "type_as", "cpu", "cuda",
)  # fmt: skip


def given_by_name(op: Op, names: Sequence[str]) -> dict[str, Any]:
    """Return the arguments of an op by the names of its signature."""
    given: dict[str, Any] = dict(zip(names, op.args, strict=False))
    given.update(op.kwargs)
    return given


def tensor_of(recording: Recording, part: Any) -> torch.Tensor | None:
    """Return the values of an argument, without a graph; None where it is no tensor, or is not kept."""
    tensor = recording.tensor_of(part)
    return tensor.detach() if tensor is not None else None


def source_of(recording: Recording, number: int) -> int:
    """Return the value that another one has the same entries as, in another shape, type or graph."""
    op = recording.producer(number)
    while op is not None and op.name in SAME_VALUES and op.inputs:
        number = op.inputs[0]
        op = recording.producer(number)
    return number


def ancestors(recording: Recording, *numbers: int) -> set[int]:
    """Return the values that these were computed from, and these."""
    seen, stack = set[int](), list(numbers)
    while stack:
        current = stack.pop()
        if current in seen:
            continue
        seen.add(current)
        op = recording.producer(current)
        stack += op.inputs if op is not None else ()
    return seen


def root_ancestors(recording: Recording) -> set[int]:
    """Return the values that the losses of a run were computed from."""
    return ancestors(recording, *(recording.roots or recording.differentiated))
