"""Masks of a recorded run, 0 or 1 for each sample, that are used as positions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.experiments.tape import Taint
from nbdebug.experiments.tape.ops import Op, Recording, Use

__all__ = ["IndexMask", "index_masks"]

FEWEST = 8  # samples: so many numbers that are all 0 or 1 are no positions among them


@dataclass(frozen=True)
class IndexMask:
    """An index of zeros and ones as long as the axis that it looks up, so that only two of its entries are read."""

    op: str
    size: int
    ones: int
    sources: tuple[str, ...]
    module: str


def index_masks(recording: Recording, samples: int) -> Iterator[IndexMask]:
    """Yield the lookups by a mask along an axis with an entry for each sample."""
    for op in recording.ops:
        for read, index, axis in _lookups(recording, op):
            value, looked_up = recording.values[index], recording.values[read]
            tensor = value.tensor
            if tensor is None or tensor.is_floating_point() or tensor.dtype in (torch.bool, torch.uint8):
                continue
            length = looked_up.shape[axis] if len(looked_up.shape) > axis else 0
            if length < max(FEWEST, samples) or tensor.shape[:1] != (length,) or tensor.numel() != length:
                continue
            is_computed = bool(looked_up.taint & Taint.PARAMETER) and bool(looked_up.taint & Taint.BATCH)
            if is_computed and value.taint == Taint.BATCH and bool(((tensor == 0) | (tensor == 1)).all()):
                ones = int(tensor.sum())
                yield IndexMask(op.name, length, ones, tuple(sorted(value.sources)), op.module)


def _lookups(recording: Recording, op: Op) -> Iterator[tuple[int, int, int]]:
    """Yield what an op looks up along one axis, by which index, and the axis."""
    if not op.args or not isinstance(op.args[0], Use):
        return
    read = op.args[0].number
    if op.name == "__getitem__" and len(op.args) > 1:
        index = op.args[1] if isinstance(op.args[1], tuple) else (op.args[1],)
        axis = 0
        for part in index:
            if isinstance(part, Use) and all(other == slice(None) for other in index if other is not part):
                yield read, part.number, axis
            axis += part is not None
    elif op.name in ("index_select", "gather"):
        given: dict[str, Any] = dict(zip(("input", "dim", "index"), op.args, strict=False)) | op.kwargs
        if isinstance(given.get("index"), Use) and isinstance(given.get("dim"), int):
            yield read, given["index"].number, given["dim"] % max(len(recording.values[read].shape), 1)
