"""Sides of boxes that a recorded run computes from targets as the difference of two corners."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.experiments.tape import Taint
from nbdebug.experiments.tape.ops import Recording, Use
from nbdebug.experiments.tape.walk import source_of, tensor_of

__all__ = ["BoxSides", "box_sides"]

_AREAS = ("mul", "prod", "mul_")


@dataclass(frozen=True)
class BoxSides:
    """Boxes of the targets whose second corner lies before the first one."""

    boxes: int
    negative: int
    sources: tuple[str, ...]
    module: str


def box_sides(recording: Recording) -> Iterator[BoxSides]:
    """Yield the differences of the last two and the first two columns of four that are multiplied to an area."""
    products = {n for op in recording.ops if op.name in _AREAS for n in op.inputs}
    by_source: dict[int, list[torch.Tensor]] = {}
    modules: dict[int, str] = {}
    for op in recording.ops:
        if op.name != "sub" or len(op.args) != 2 or not all(isinstance(part, Use) for part in op.args):
            continue
        value = recording.values[op.outputs[0]]
        if value.requires_grad or value.taint != Taint.BATCH:
            continue
        (end, last), (begin, first) = (_columns(recording, part.number) for part in op.args)
        is_side = end == begin and end >= 0 and last == [c + 2 for c in first] and set(first) <= {0, 1}
        made = tensor_of(recording, Use(op.outputs[0]))
        if is_side and made is not None and _leads_to(recording, op.outputs[0], products):
            by_source.setdefault(end, []).append(made.reshape(-1, len(first)))
            modules[end] = op.module
    for number, sides in by_source.items():
        rows = {len(side) for side in sides}
        if len(rows) == 1:
            negative = (torch.cat(sides, 1) < 0).any(1)
            sources = tuple(sorted(recording.values[number].sources))
            yield BoxSides(len(negative), int(negative.sum()), sources, modules[number])


def _leads_to(recording: Recording, number: int, products: set[int]) -> bool:
    """Whether the sides themselves are multiplied, and not after they were cut off at zero."""
    if number in products:
        return True
    follow = [op for op in recording.ops if number in op.inputs and op.name in ("__getitem__", "unbind", "squeeze")]
    return any(n in products for op in follow for n in op.outputs)


def _columns(recording: Recording, number: int) -> tuple[int, list[int]]:
    """Return the boxes that a value is columns of, and which columns; -1 where it is not."""
    op = recording.producer(number)
    if op is None or not op.inputs:
        return -1, []
    whole = source_of(recording, op.inputs[0])
    shape = recording.values[op.inputs[0]].shape
    if not shape or shape[-1] != 4:
        return -1, []
    columns = list(range(4))
    if op.name == "__getitem__":
        index = op.args[1] if isinstance(op.args[1], tuple) else (op.args[1],)
        is_last = index[0] is Ellipsis or len([part for part in index if part is not None]) == len(shape)
        return (whole, _picked(columns, index[-1])) if is_last else (-1, [])
    if op.name in ("unbind", "chunk", "split"):
        outputs = list(op.outputs)
        if number not in outputs or 4 % len(outputs):
            return -1, []
        width = 4 // len(outputs)
        at = outputs.index(number) * width
        return whole, columns[at : at + width]
    return -1, []


def _picked(columns: list[int], part: Any) -> list[int]:
    found = columns[part] if isinstance(part, (int, slice)) else []
    return found if isinstance(found, list) else [found]
