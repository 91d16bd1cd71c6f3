"""Take a batch apart into the pieces that are shown: every input and target by name, samples first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from nbdebug.setup import Batch
from nbdebug.setup.nested import Path, at, children, name_of
from nbdebug.setup.recognition import is_padding_mask, kind_of
from nbdebug.views.batch_preview.parts import Taste, part_of, text_of
from nbdebug.views.batch_preview.preview import Part, Role

__all__ = ["count_of", "front", "leftovers", "parts_of"]


@dataclass(frozen=True)
class _Piece:
    name: str
    role: Role
    value: Any  # a tensor with the samples in front, or a list with one thing a sample


def count_of(batch: Batch) -> int:
    """Return the number of samples; where time comes first, it is the second dimension that counts them."""
    target = batch.target if batch.has_target else None
    inputs = [t for t in batch.inputs.values() if t.dim() > 0]
    lists = [v for v in (*batch.args, target) if isinstance(v, (list, tuple)) and v]
    if lists and (_is_ragged(lists[0]) or (len(lists) > 1 and len(lists[0]) == len(lists[-1]))):
        return len(lists[0])
    if isinstance(target, torch.Tensor) and target.dim() > 0 and inputs:
        size = int(target.shape[0])
        if all(t.shape[0] != size and t.dim() > 1 and t.shape[1] == size for t in inputs):
            return size
    return batch.size


def _is_ragged(value: Sequence[Any]) -> bool:
    shapes = [tuple(item.shape) for item in value if isinstance(item, torch.Tensor)]
    return len(shapes) == len(value) and len(set(shapes)) > 1


def front(tensor: torch.Tensor, count: int) -> torch.Tensor | None:
    """Return a tensor with the samples in front, or None where it has no dimension for them."""
    if tensor.dim() > 0 and tensor.shape[0] == count:
        return tensor
    return tensor.movedim(1, 0) if tensor.dim() > 1 and tensor.shape[1] == count else None


def parts_of(batch: Batch, shown: int, taste: Taste) -> list[Part]:
    """Show every input and target of the first so many samples; a mask of padding grays its tokens instead."""
    count = count_of(batch)
    pieces = [replace(p, value=p.value[:shown]) for p in _pieces(batch, count)]
    tensors = {p.name: p.value for p in pieces if isinstance(p.value, torch.Tensor)}
    ids = {name: t for name, t in tensors.items() if kind_of(name, t) == "tokens"}
    masks = {name: (m, t) for name, t in ids.items() for m, v in tensors.items() if is_padding_mask(m, v, t)}
    taste = replace(taste, masks={name: tensors[mask] for name, (mask, _) in masks.items()})
    hidden = {mask for mask, _ in masks.values()}
    parts = [_part(piece, taste) for piece in pieces if piece.name not in hidden]
    return [p for p in parts if p.role == "input" or not _is_answer(p)]


def leftovers(batch: Batch) -> list[str]:
    """Name the parts of a batch that neither the model nor the loss gets."""
    paths = [*batch.reading.input_paths, *([batch.reading.target] if batch.reading.target is not None else [])]
    parts = children(batch.raw) or []
    return [name_of((step,)) for step, _ in parts if not any(path[:1] in ((step,), ()) for path in paths)]


def _is_answer(part: Part) -> bool:
    """Whether a target is one answer a sample, which stands under the sample in words."""
    return part.kind == "table" and len(part.shape) <= 2


def _pieces(batch: Batch, count: int) -> Iterator[_Piece]:
    target = batch.reading.target
    for path in batch.reading.input_paths:
        yield from _split(path, "input", at(batch.raw, path), count, target)
    if target is not None:
        yield from _split(target, "target", at(batch.raw, target), count, None)


def _split(path: Path, role: Role, value: Any, count: int, leave_out: Path | None) -> Iterator[_Piece]:
    if leave_out is not None and path == leave_out:
        return
    name = name_of(path)
    if isinstance(value, PackedSequence):
        value = pad_packed_sequence(value, batch_first=True)[0]
    if isinstance(value, torch.Tensor):
        whole = front(value, count) if not value.is_nested else list(value.unbind())
        if whole is not None:
            yield _Piece(name, role, whole)
    elif isinstance(value, (list, tuple)) and len(value) == count and not _is_plain_pair(value, count):
        yield _Piece(name, role, list(value))
    else:
        for step, part in children(value) or ():
            yield from _split((*path, step), role, part, count, leave_out)


def _is_plain_pair(value: Sequence[Any], count: int) -> bool:
    """Whether a list as long as the batch holds whole columns and not one thing a sample."""
    return all(isinstance(v, torch.Tensor) and v.dim() > 0 and v.shape[0] == count for v in value)


def _part(piece: _Piece, taste: Taste) -> Part:
    if isinstance(piece.value, torch.Tensor):
        return part_of(piece.name, piece.role, piece.value, taste)
    if all(isinstance(item, torch.Tensor) and item.dim() > 0 for item in piece.value):
        singles = [part_of(piece.name, piece.role, item[None], taste) for item in piece.value]
        if len({part.kind for part in singles}) == 1:
            items = tuple(part.items[0] for part in singles)
            said = "samples of different sizes"
            return replace(singles[0], items=items, says=(said, *singles[0].says), shape=(len(items),))
    texts = tuple(text_of(item) for item in piece.value)
    return Part(piece.name, piece.role, "value", (len(texts),), type(piece.value[0]).__name__, (), texts)
