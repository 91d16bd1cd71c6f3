"""Infer which dimension of a batch holds the samples, and how many there are."""

from __future__ import annotations

from typing import Any

import torch

from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch, Setup
from nbdebug.setup.batch_layout import BatchLayout
from nbdebug.setup.user_code import user_code

__all__ = ["layout_of"]


def layout_of(sandbox: Sandbox, batch: Batch) -> BatchLayout:
    """Say where the samples of a batch are, or why its rows are no samples."""
    tensors = [t for t in batch.inputs.values() if t.dim() > 0]
    if not tensors:
        return BatchLayout(batch.size, refused="the inputs contain no tensor with a batch dimension")
    if batch.joined_by:
        packed = batch.joined_by[0]
        refused = f"samples are packed along dim 0, and {packed} assigns the parts to samples"
        return BatchLayout(batch.size, packed=packed, refused=refused)
    drawn = _drawn_by_loader(sandbox.setup)
    if drawn is not None and batch.size != min(drawn, batch.size) and batch.size % drawn:
        return _time_first(batch, tensors, drawn)
    if drawn is not None:
        return _counted(sandbox.setup, batch, tensors, drawn)
    if _is_graph(sandbox, batch):
        refused = "the rows of the batch are nodes of one graph, so they are not independent samples"
        return BatchLayout(batch.size, refused=refused)
    return _by_target(batch, tensors)


def _by_target(batch: Batch, tensors: list[torch.Tensor]) -> BatchLayout:
    """Compare the dimensions of inputs and target, where the loader does not say how many samples it draws."""
    target = batch.target if batch.has_target else None
    if isinstance(target, torch.Tensor) and target.dim() > 0 and target.shape[0] != tensors[0].shape[0]:
        first = int(target.shape[0])
        if all(t.dim() > 1 and t.shape[1] == first for t in tensors):
            return BatchLayout(first, 1)
    if not isinstance(target, torch.Tensor) or target.dim() < 2 or target.shape[:2] != tensors[0].shape[:2]:
        return BatchLayout(batch.size, is_certain=True)
    time = _shifted_axis(tensors[0], target)
    if time == 0:
        return BatchLayout(int(tensors[0].shape[1]), 1, is_certain=True)
    return BatchLayout(batch.size, is_certain=time == 1)


def _shifted_axis(tensor: torch.Tensor, target: torch.Tensor) -> int | None:
    """Return the dimension along which the target is the next step of the input, which is time then."""
    for axis in (1, 0):
        length = tensor.shape[axis]
        if tensor.shape == target.shape and length > 3:
            same = tensor.narrow(axis, 1, length - 1) == target.narrow(axis, 0, length - 1)
            if float(same.double().mean()) > 0.9:
                return axis
    return None


def _drawn_by_loader(setup: Setup) -> int | None:
    """Return the number of samples that the loader puts into its first batch, where it says so."""
    size = getattr(setup.feed.loader, "batch_size", None)
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        return None
    return min(size, setup.feed.total) if setup.feed.total else size


def _counted(setup: Setup, batch: Batch, tensors: list[torch.Tensor], drawn: int) -> BatchLayout:
    first = [t for t in tensors if t.shape[0] == drawn]
    second = [t for t in tensors if t.dim() > 1 and t.shape[1] == drawn]
    if first and len(second) == len(tensors) and _collates_second(setup):
        return BatchLayout(drawn, 1, is_certain=True)
    if first:
        return BatchLayout(drawn, is_certain=True)
    return _time_first(batch, tensors, drawn) if second else BatchLayout(batch.size)


def _time_first(batch: Batch, tensors: list[torch.Tensor], drawn: int) -> BatchLayout:
    if all(t.dim() > 1 and t.shape[1] == drawn for t in tensors):
        return BatchLayout(drawn, 1, is_certain=True)
    refused = f"the loader draws {drawn} samples, but the inputs have {batch.size} rows: a row is not a sample"
    return BatchLayout(batch.size, refused=refused)


def _collates_second(setup: Setup) -> bool:
    """Ask the loader's own collate, with two samples, whether it puts them into the second dimension."""
    dataset = setup.feed.dataset
    with user_code(passing=()):
        pair = setup.wrap(setup.feed.collate([dataset[0], dataset[1]]))
        tensors = [t for t in pair.inputs.values() if t.dim() > 1]
        return bool(tensors) and all(t.shape[1] == 2 and t.shape[0] != 2 for t in tensors)
    return False


def _is_graph(sandbox: Sandbox, batch: Batch) -> bool:
    """Whether the rows of a batch are nodes of a graph, which are meant to affect each other."""
    inputs, rows = list(batch.inputs.values()), batch.size
    held: list[Any] = [*inputs[1:], *sandbox.model.buffers()]
    held += [value for module in sandbox.model.modules() for value in vars(module).values()]
    return any(isinstance(tensor, torch.Tensor) and _joins_rows(tensor, rows) for tensor in held)


def _joins_rows(tensor: torch.Tensor, rows: int) -> bool:
    if tensor.layout is not torch.strided:
        return True
    if tensor.dim() != 2:
        return False
    edges = tensor.shape[0] == 2 and tensor.dtype == torch.int64 and rows != 2
    return edges or tuple(tensor.shape) == (rows, rows)
