"""Samples of many tensors in few operations: each operation costs more than the numbers that it moves.

On the CPU, NumPy looks into a tensor's memory for a fifth of what a view costs in torch. On other devices torch
gathers, and nothing is waited for until a flush.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import torch

from nbdebug.core.torch_compat import has_arrived, is_transformed_tensor, write_count
from nbdebug.setup.distributed.pieces import is_sum_pending, piece_of
from nbdebug.setup.nested import first_tensor
from nbdebug.setup.tensor_memory import array_of
from nbdebug.watch.recorder.memory import Memory
from nbdebug.watch.recorder.single import as_single

__all__ = [
    "PHASES",
    "SURELY",
    "VERIFIED",
    "Block",
    "Gather",
    "Groups",
    "Names",
    "elements_each",
    "is_plain",
    "joined",
    "put",
    "sample_at_once",
    "sampled",
]

LINE = 16  # neighboring elements that are taken together: one cache line of float32
PER_STEP, LEAST, MOST = 32_768, 128, 1_024  # elements of a sample: of all layers together, and of one
MOST_NAMES = 64
SURELY, VERIFIED = 3, 16  # copied or measured again though nothing seems to have changed: at first, then now and then
REACH, SPACINGS = 0.9, 64  # of the memory that a sample has to reach at least; spacings that are tried
PHASES = 4  # samples of the weights rotate, so that no element is left out for ever
_READABLE = (torch.float32, torch.float64, torch.float16)  # by NumPy
_FLOAT = np.dtype(np.float32)
Groups: TypeAlias = dict[Any, tuple[list[int], list[Any]]]  # of views that can be copied together


class Block:
    """Samples of equal size from several tensors; `indices` says from which, in the order of the rows."""

    __slots__ = ("data", "indices", "size")

    def __init__(self, indices: tuple[int, ...], size: int, data: Any) -> None:
        self.indices, self.size, self.data = indices, size, data

    def rows(self) -> np.ndarray:
        """Return one row of float32 for each tensor; a device is waited for here and nowhere else."""
        data = self.data
        if type(data) is np.ndarray and data.dtype is _FLOAT:
            return data.reshape(len(self.indices), self.size)
        if isinstance(data, torch.Tensor):
            data = data.to("cpu", data.dtype if data.dtype in _READABLE else torch.float32).numpy()
        return as_single(np.asarray(data)).reshape(len(self.indices), self.size)


def elements_each(tensors: int) -> int:
    """Return how many elements of one tensor a sample takes."""
    return max(LEAST, min(MOST, PER_STEP // max(tensors, 1))) // LINE * LINE


@lru_cache(maxsize=1024)
def lines_of(extent: int, wanted: int, inner: int) -> tuple[int, int]:
    """Return how many lines are taken of so many elements, and how far apart; no lines where all are taken.

    `inner` elements belong to one sample of the batch. Evenly spaced lines may meet every sample at the same place, one
    channel or a few units of all; so of the spacings that reach nearly to the end the one is taken whose lines lie most
    evenly within a sample.
    """
    lines = wanted // LINE
    most = (extent - LINE) // lines
    if most <= LINE:
        return 0, 0
    tried = np.unique(np.linspace(max(LINE + 1, int(REACH * most)), most, SPACINGS).astype(np.int64))
    places = np.sort(np.arange(lines) * tried[:, None] % inner, axis=1)
    gaps = np.diff(places, axis=1, append=places[:, :1] + inner).max(axis=1)
    return lines, int(tried[np.flatnonzero(gaps == gaps.min())[-1]])


def sampled(tensor: torch.Tensor, wanted: int, phase: int = 0) -> tuple[Any, int]:
    """Look at a sample of a tensor without copying it; the rows of what is given belong together."""
    extent = tensor.numel()
    if not tensor.is_contiguous():
        extent = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
        if extent > tensor.numel():  # a slice: the memory between its elements belongs to something else
            tensor, extent = tensor.detach().reshape(-1)[: 4 * wanted], min(4 * wanted, tensor.numel())
    inner = tensor.numel() // len(tensor) if tensor.dim() and len(tensor) else 1
    lines, spacing = lines_of(extent, wanted, max(inner, 1))
    start = phase * (extent - lines * spacing) // PHASES
    if tensor.dtype in _READABLE and tensor.device.type == "cpu" and tensor.is_contiguous():
        flat = array_of(tensor).reshape(-1)
        if not lines:
            return flat[:wanted], min(extent, wanted)
        return flat[start : start + lines * spacing].reshape(lines, spacing)[:, :LINE], lines * LINE
    memory = tensor.detach().as_strided((extent,), (1,))
    if not lines:
        return memory[:wanted], min(extent, wanted)
    return memory[start : start + lines * spacing].view(lines, spacing)[:, :LINE], lines * LINE


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor has ordinary memory full of real numbers; some give theirs back while they live on."""
    is_dense = tensor.is_floating_point() and tensor.layout is torch.strided and not tensor.is_meta
    if not is_dense or tensor.is_nested or is_transformed_tensor(tensor):
        return False
    return tensor.numel() > 0 and tensor.data_ptr() != 0 and not tensor.is_neg()


def _held(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """Return what this process holds of an output; of what the processes have still to add up, nothing."""
    return None if tensor is None or is_sum_pending(tensor) else has_arrived(piece_of(tensor))


def sample_at_once(wanted: int) -> Callable[[Any], Any]:
    """Return a function that copies a sample out of an output, for outputs that are soon written over."""

    def take(output: Any) -> Any:
        tensor = _held(first_tensor(output))
        if tensor is None or not is_plain(tensor):
            return None
        with torch.no_grad():
            view, size = sampled(tensor, wanted)
            return (view.copy() if isinstance(view, np.ndarray) else view.clone()), size

    return take


class Gather:
    """Gathers what the modules of one pass gave; in a pass like the one before, by the same way."""

    def __init__(self, layers: int) -> None:
        self.wanted = elements_each(layers)
        self.overwritten: set[int] = set()
        self._names = Names()
        self._plan: _Plan | None = None

    def __call__(self, calls: list[tuple[int, Any, int]]) -> list[Block]:
        """Return the samples in blocks; outputs that were written over since are left out and remembered."""
        plain = [call for call in calls if call[2] >= 0]
        blocks = None if self._plan is None else self._plan.blocks(plain)
        if blocks is not None and len(plain) == len(calls):
            return blocks
        with torch.no_grad():
            if blocks is None:
                groups = self._grouped(plain)
                self._plan = _Plan(plain, groups) if _is_regular(plain, groups) else None
                blocks = self._names.blocks(groups)
            return blocks + self._names.blocks(self._grouped([call for call in calls if call[2] < 0]))

    def _grouped(self, calls: list[tuple[int, Any, int]]) -> Groups:
        groups: Groups = {}
        for index, output, version in calls:
            taken = self._taken(index, output, version)
            if taken is not None:
                put(groups, taken[1], index, taken[0])
        return groups

    def _taken(self, index: int, output: Any, version: int) -> tuple[Any, int] | None:
        if version == -1:
            return output  # type: ignore[no-any-return]
        tensor = output if version >= 0 else _held(first_tensor(output))
        if tensor is None or not is_plain(tensor):
            return None
        if version >= 0 and write_count(tensor) != version:
            self.overwritten.add(index)
            return None
        try:
            return sampled(tensor, self.wanted)
        except (RuntimeError, TypeError, ValueError, BufferError):  # a kind of tensor without memory to look at
            return None


class _Plan:
    """The way through a pass whose outputs are all plain: nothing is decided again as long as all sizes stay the same.

    Each decision costs as much as the numbers that it is about, and a model may have hundreds of layers.
    """

    def __init__(self, calls: list[tuple[int, Any, int]], groups: Groups) -> None:
        self.indices = tuple(index for index, _, _ in calls)
        found = {index: view for indices, views in groups.values() for index, view in zip(indices, views, strict=True)}
        layouts = [(found[index].shape, found[index].strides) for index in self.indices]
        self.memory = Memory([output.numel() for _, output, _ in calls], layouts)
        place = {index: number for number, index in enumerate(self.indices)}
        self.groups = [(tuple(own), key[0], [place[i] for i in own]) for key, (own, _) in groups.items()]

    def blocks(self, calls: list[tuple[int, Any, int]]) -> list[Block] | None:
        """Return the samples, or None where something is not as it was."""
        if len(calls) != len(self.indices):
            return None
        indices, tensors, versions = zip(*calls, strict=True)
        if indices != self.indices or versions != tuple(map(write_count, tensors)):
            return None
        views = self.memory.of(tensors)
        if views is None:
            return None
        return [Block(own, size, np.concatenate([views[n] for n in places])) for own, size, places in self.groups]


def _is_regular(calls: list[tuple[int, Any, int]], groups: Groups) -> bool:
    """Whether every module was called once and gave one tensor of float32 in the memory of the CPU."""
    views = [view for _, own in groups.values() for view in own]
    return (
        0 < len(views) == len(calls) == len({index for index, _, _ in calls})
        and all(version >= 0 for _, _, version in calls)
        and all(isinstance(view, np.ndarray) and view.dtype == _FLOAT for view in views)
        and all(output.is_contiguous() for _, output, _ in calls)
    )


def put(groups: Groups, size: int, index: int, view: Any) -> None:
    """Put a view to those that can be copied together with it: of one size, and for torch of one kind and device."""
    is_array = isinstance(view, np.ndarray)
    key = (size, view.ndim) if is_array else (size, view.device, view.dtype)
    group = groups.get(key)
    if group is None:
        group = groups[key] = ([], [])
    group[0].append(index)
    group[1].append(view)


class Names(dict[tuple[int, ...], tuple[int, ...]]):
    """Gives one object for the same tensors, so that their blocks are quickly found to belong together."""

    def of(self, indices: list[int]) -> tuple[int, ...]:
        """Name these tensors."""
        return self.setdefault(tuple(indices), tuple(indices)) if len(self) < MOST_NAMES else tuple(indices)

    def blocks(self, groups: Groups) -> list[Block]:
        """Copy the views of each group together."""
        return [Block(self.of(own), key[0], joined(views)) for key, (own, views) in groups.items()]


def joined(views: list[Any]) -> Any:
    """Copy views together."""
    return np.concatenate(views) if isinstance(views[0], np.ndarray) else torch.cat(views)
