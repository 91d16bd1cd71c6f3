"""Samples of many tensors in few operations: each operation costs more than the numbers that it moves.

On the CPU, NumPy looks into a tensor's memory for a fifth of what a view costs in torch. On other devices torch
gathers, and nothing is waited for until a flush.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from nbdebug.twin.taps import first_tensor

__all__ = ["Block", "Gather", "WeightViews", "sample_at_once"]

LINE = 16  # neighbouring elements that are taken together: one cache line of float32
PER_STEP, LEAST, MOST = 32_768, 128, 2_048  # elements of a sample: of all layers together, and of one
PHASES = 4  # samples of the weights rotate, so that no element is left out for ever
_READABLE = (torch.float32, torch.float64, torch.float16)  # by NumPy
_ORDINARY = (torch.Tensor, torch.nn.Parameter)


class Block:
    """Samples of equal size from several tensors; `indices` says from which, in the order of the rows."""

    __slots__ = ("data", "indices", "size")

    def __init__(self, indices: tuple[int, ...], size: int, data: Any) -> None:
        self.indices, self.size, self.data = indices, size, data

    def rows(self) -> np.ndarray:
        """Give one row of float32 for each tensor; a device is waited for here and nowhere else."""
        data = self.data
        if isinstance(data, torch.Tensor):
            data = data.to("cpu", torch.float32).numpy()
        rows: np.ndarray = np.asarray(data, np.float32).reshape(len(self.indices), self.size)
        return rows


def elements_each(tensors: int) -> int:
    """Give how many elements of one tensor a sample takes."""
    return max(LEAST, min(MOST, PER_STEP // max(tensors, 1))) // LINE * LINE


def lines_of(extent: int, wanted: int) -> tuple[int, int]:
    """Give how many lines are taken of so many elements, and how far apart; no lines where all are taken."""
    lines = wanted // LINE
    spacing = (extent - LINE) // lines
    if spacing <= LINE:
        return 0, 0
    return lines, spacing - 1 + spacing % 2  # odd, so that it is not always the same unit


def sampled(tensor: torch.Tensor, wanted: int, phase: int = 0) -> tuple[Any, int]:
    """Look at a sample of a tensor without copying it; the rows of what is given belong together."""
    extent = tensor.numel()
    if not tensor.is_contiguous():
        extent = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
        if extent > tensor.numel():  # a slice: the memory between its elements belongs to something else
            tensor, extent = tensor.detach().reshape(-1)[: 4 * wanted], min(4 * wanted, tensor.numel())
    lines, spacing = lines_of(extent, wanted)
    start = phase * spacing // PHASES if lines * spacing + LINE + spacing <= extent else 0
    if tensor.dtype in _READABLE and tensor.device.type == "cpu" and tensor.is_contiguous():
        flat = tensor.detach().numpy().reshape(-1)
        if not lines:
            return flat[:wanted], min(extent, wanted)
        return flat[start : start + lines * spacing].reshape(lines, spacing)[:, :LINE], lines * LINE
    memory = tensor.detach().as_strided((extent,), (1,))
    if not lines:
        return memory[:wanted], min(extent, wanted)
    return memory[start : start + lines * spacing].view(lines, spacing)[:, :LINE], lines * LINE


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor has ordinary memory full of real numbers."""
    return tensor.is_floating_point() and tensor.layout is torch.strided and not tensor.is_meta and tensor.numel() > 0


def sample_at_once(wanted: int) -> Callable[[Any], Any]:
    """Give a function that copies a sample out of an output, for outputs that are soon written over."""

    def take(output: Any) -> Any:
        tensor = first_tensor(output)
        if tensor is None or not is_plain(tensor):
            return None
        with torch.no_grad():
            view, size = sampled(tensor, wanted)
            return (view.copy() if isinstance(view, np.ndarray) else view.clone()), size

    return take


class Gather:
    """Gathers what the modules of one pass gave; the way to each is remembered as long as its size stays the same."""

    def __init__(self, layers: int) -> None:
        self.wanted = elements_each(layers)
        self.overwritten: set[int] = set()
        self._ways: dict[int, tuple[int, int, tuple[int, ...], tuple[int, ...]]] = {}

    def __call__(self, calls: list[tuple[int, Any, int]]) -> list[Block]:
        """Give the samples in blocks; outputs that were written over since are left out and remembered."""
        groups: dict[Any, tuple[list[int], list[Any]]] = {}
        for index, output, version in calls:
            taken = self._known_way(index, output, version) or self._taken(index, output, version)
            if taken is not None:
                view, size = taken
                # An integer for NumPy, and with the device for torch.
                key = size if isinstance(view, np.ndarray) else (size, view.device, view.dtype)
                indices, views = groups.get(key) or groups.setdefault(key, ([], []))
                indices.append(index)
                views.append(view)
        return blocks_of(groups)

    def _known_way(self, index: int, output: Any, version: int) -> tuple[Any, int] | None:
        """Take the same lines as the last time, where nothing has changed but the values."""
        way = self._ways.get(index)
        if way is None or version < 0 or output._version != version or output.numel() != way[0]:
            return None
        try:
            memory = output.detach().numpy()
            return np.ndarray(way[2], np.float32, memory, 0, way[3]), way[1]
        except (TypeError, ValueError):  # no longer contiguous, of another type or on another device
            self._ways.pop(index)
            return None

    def _taken(self, index: int, output: Any, version: int) -> tuple[Any, int] | None:
        if version == -1:
            return output  # type: ignore[no-any-return]
        tensor = output if version >= 0 else first_tensor(output)
        if tensor is None or not is_plain(tensor):
            return None
        if version >= 0 and tensor._version != version:
            self.overwritten.add(index)
            return None
        view, size = sampled(tensor, self.wanted)
        if isinstance(view, np.ndarray) and view.ndim == 2 and view.dtype == np.float32:
            self._ways[index] = (tensor.numel(), size, view.shape, view.strides)
        return view, size


def blocks_of(groups: dict[Any, tuple[list[int], list[Any]]]) -> list[Block]:
    """Copy the views of each group together."""
    return [
        Block(tuple(indices), key, np.concatenate(_alike(views)))
        if isinstance(key, int)
        else Block(tuple(indices), key[0], torch.cat(views))
        for key, (indices, views) in groups.items()
    ]


def _alike(views: list[Any]) -> list[Any]:
    """Give views of one kind: a tensor that is taken whole may have as many elements as the lines of another."""
    if all(view.ndim == views[0].ndim for view in views):
        return views
    return [view.reshape(-1) for view in views]


class WeightViews:
    """Views of a sample of every weight, made once and read many times; they rotate over the elements."""

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        self.parameters = parameters
        self.wanted = elements_each(len(parameters))
        self._pointers: list[int] | None = None
        self._phases: list[dict[Any, tuple[list[int], list[Any]]]] = []
        self.is_plain = False

    def refresh(self) -> None:
        """Make the views anew where a tensor was moved or swapped since."""
        pointers = [0 if type(p) not in _ORDINARY else p.data_ptr() for p in self.parameters]
        if pointers != self._pointers:
            self._pointers = pointers
            self.is_plain = all(p.dtype is torch.float32 and p.device.type == "cpu" for p in self.parameters)
            self._phases = [self._views(number) for number in range(PHASES)]

    def __call__(self, phase: int) -> list[Block]:
        """Copy the sample of this phase."""
        return blocks_of(self._phases[phase % PHASES])

    def _views(self, phase: int) -> dict[Any, tuple[list[int], list[Any]]]:
        groups: dict[Any, tuple[list[int], list[Any]]] = {}
        for index, parameter in enumerate(self.parameters):
            if type(parameter) in _ORDINARY and is_plain(parameter):
                view, size = sampled(parameter, self.wanted, phase)
                key = size if isinstance(view, np.ndarray) else (size, view.device, view.dtype)
                indices, views = groups.setdefault(key, ([], []))
                indices.append(index)
                views.append(view)
        return groups
