"""Samples of many tensors in few operations: each operation costs more than the numbers that it moves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch

from nbdebug.twin.taps import first_tensor

__all__ = ["Flat", "Gather", "Norms", "WeightViews", "sample_at_once", "squared_norms"]

LINE = 16  # neighbouring elements that are taken together: one cache line of float32
WHOLE = 256  # elements up to which a tensor is taken whole
PER_STEP, LEAST, MOST = 32_768, 128, 4_096  # elements of a sample: of all layers together, and of one
SMALL = 16_384  # elements up to which gradients are gathered into one buffer
PHASES = 4  # samples of the weights rotate, so that no element is left out for ever

Layout = tuple[tuple[int, int], ...]  # (index of the tensor, elements taken) in the order of the buffer
Geometry = tuple[tuple[int, ...], tuple[int, ...]] | None


class Flat:
    """One buffer of samples, still on its device, with the layout that says which part belongs to which tensor."""

    __slots__ = ("layout", "parts")

    def __init__(self, layout: Layout, parts: list[torch.Tensor]) -> None:
        self.layout, self.parts = layout, parts

    def numpy(self) -> np.ndarray:
        """Give the samples as one row of float32; a device is waited for here and nowhere else."""
        rows = [part.reshape(-1).to("cpu", torch.float32).numpy() for part in self.parts]
        joined: np.ndarray = rows[0] if len(rows) == 1 else np.concatenate(rows)
        return joined


def elements_each(tensors: int) -> int:
    """Give how many elements of one tensor a sample takes."""
    return max(LEAST, min(MOST, PER_STEP // max(tensors, 1)))


def geometry(tensor: torch.Tensor, wanted: int) -> Geometry:
    """Say how to view a tensor's memory so that lines spread over it are seen; None where only a copy would do."""
    extent = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    if tensor.numel() == 0 or extent > tensor.numel():
        return None  # a slice: the memory between its elements belongs to something else
    if extent <= max(WHOLE, wanted // 4):
        return (extent,), (1,)
    lines = max(1, min(wanted, extent) // LINE)
    spacing = max((extent - LINE) // lines, 1)
    return (lines, LINE), (spacing - 1 + spacing % 2 if spacing > LINE else spacing, 1)  # odd: not always the same unit


def sample_at_once(wanted: int) -> Callable[[Any], Any]:
    """Give a function that copies a sample out of an output, for outputs that are soon written over."""

    def take(output: Any) -> Any:
        tensor = first_tensor(output)
        if tensor is None or not _is_plain(tensor):
            return None
        with torch.no_grad():
            shape = geometry(tensor, wanted)
            return (tensor.reshape(-1)[:wanted] if shape is None else tensor.as_strided(*shape)).clone()

    return take


def _is_plain(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and tensor.layout is torch.strided and not tensor.is_meta and tensor.numel() > 0


class Gather:
    """Gathers what the modules of one pass gave; how each is viewed is worked out once for every shape."""

    def __init__(self, layers: int) -> None:
        self.wanted = elements_each(layers)
        self._geometries: dict[tuple[Any, ...], Geometry] = {}
        self._layouts: dict[Layout, Layout] = {}
        self.overwritten: set[int] = set()

    def __call__(self, calls: list[tuple[int, Any, int]]) -> list[Flat]:
        """Give one buffer for each device; outputs that were written over since are left out and remembered."""
        lines: dict[Any, tuple[list[Any], list[Any]]] = {}
        runs: dict[Any, tuple[list[Any], list[Any]]] = {}
        for index, output, version in calls:
            tensor = self._still_there(index, output, version)
            if tensor is None:
                continue
            view = self._view(tensor) if version != -1 else tensor
            kind = lines if view.dim() == 2 else runs
            marks, views = kind.setdefault(view.device, ([], []))
            marks.append((index, view.numel()))
            views.append(view)
        return [self._joined(lines.get(device), runs.get(device)) for device in {**lines, **runs}]

    def _still_there(self, index: int, output: Any, version: int) -> torch.Tensor | None:
        tensor = output if type(output) is torch.Tensor else first_tensor(output)
        if tensor is None or not _is_plain(tensor):
            return None
        if version >= 0 and tensor._version != version:
            self.overwritten.add(index)
            return None
        return tensor

    def _view(self, tensor: torch.Tensor) -> torch.Tensor:
        contiguous = tensor.is_contiguous()
        key: tuple[Any, ...] = (tensor.numel(),) if contiguous else (tensor.shape, tensor.stride())
        if key not in self._geometries:
            if len(self._geometries) > 4096:
                self._geometries.clear()
            self._geometries[key] = geometry(tensor, self.wanted)
        shape = self._geometries[key]
        return tensor.reshape(-1)[: self.wanted] if shape is None else tensor.as_strided(*shape)

    def _joined(self, *groups: tuple[list[Any], list[Any]] | None) -> Flat:
        layout = tuple(mark for group in groups if group for mark in group[0])
        if len(self._layouts) > 256:
            self._layouts.clear()
        parts = [torch.cat(group[1]) for group in groups if group]
        return Flat(self._layouts.setdefault(layout, layout), parts)


class WeightViews:
    """Views of a sample of every weight, made once and read many times; they rotate over the elements."""

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        self.parameters = parameters
        self.wanted = elements_each(len(parameters))
        self._pointers: list[int] = []
        self._phases: list[list[tuple[Layout, list[torch.Tensor]]]] = []

    def __call__(self, phase: int) -> list[Flat]:
        """Copy the sample of this phase; one buffer for each device and kind of view."""
        pointers = [_pointer(p) for p in self.parameters]
        if pointers != self._pointers:  # moved, swapped, or seen for the first time
            self._pointers = pointers
            self._phases = [self._views(number) for number in range(PHASES)]
        return [Flat(layout, [torch.cat(views)]) for layout, views in self._phases[phase % PHASES]]

    def _views(self, phase: int) -> list[tuple[Layout, list[torch.Tensor]]]:
        groups: dict[Any, tuple[list[tuple[int, int]], list[torch.Tensor]]] = {}
        for index, parameter in enumerate(self.parameters):
            if not _pointer(parameter) or not _is_plain(parameter):
                continue
            view = _phase_view(parameter.detach(), self.wanted, phase)
            if view is not None:
                marks, views = groups.setdefault((view.device, view.dtype, view.dim()), ([], []))
                marks.append((index, view.numel()))
                views.append(view)
        return [(tuple(marks), views) for marks, views in groups.values()]


def _pointer(parameter: torch.Tensor) -> int:
    if isinstance(parameter, torch.nn.UninitializedParameter) or type(parameter) not in _ORDINARY:
        return 0
    return parameter.data_ptr()


_ORDINARY = (torch.Tensor, torch.nn.Parameter)


def _phase_view(tensor: torch.Tensor, wanted: int, phase: int) -> torch.Tensor | None:
    shape = geometry(tensor, wanted)
    if shape is None:
        return None
    size, stride = shape
    if len(size) == 1:
        return tensor.as_strided(size, stride)
    room = tensor.numel() - ((size[0] - 1) * stride[0] + LINE)
    step = min(stride[0] * phase // PHASES, max(room, 0))
    return tensor.as_strided(size, stride, tensor.storage_offset() + step)


class Norms:
    """Squared norms of some gradients: known already, or still on a device."""

    __slots__ = ("known", "later", "places")

    def __init__(self, known: np.ndarray, places: list[int], later: list[torch.Tensor]) -> None:
        self.known, self.places, self.later = known, places, later

    def numpy(self) -> np.ndarray:
        """Give the norms, NaN where there is no gradient and infinite where it is not finite."""
        squares = self.known.copy()
        if self.later:
            values = [torch.stack(group) if len(group) > 1 else group[0].reshape(1) for group in _by_device(self.later)]
            large = np.concatenate([v.double().cpu().numpy() for v in values])
            squares[self.places] = np.where(np.isfinite(large), large**2, np.inf)
        norms: np.ndarray = np.sqrt(squares)
        return norms


def _by_device(tensors: list[torch.Tensor]) -> Iterable[list[torch.Tensor]]:
    """Split into runs on one device, in order."""
    runs: list[list[torch.Tensor]] = []
    for tensor in tensors:
        if runs and runs[-1][0].device == tensor.device:
            runs[-1].append(tensor)
        else:
            runs.append([tensor])
    return runs


def squared_norms(gradients: Sequence[torch.Tensor | None]) -> Norms:
    """Measure every gradient exactly: small ones are copied together, large ones by one call for all."""
    known = np.full(len(gradients), np.nan)
    small: list[int] = []
    large: list[int] = []
    for index, gradient in enumerate(gradients):
        if gradient is None or gradient.numel() == 0:
            continue
        if gradient.layout is torch.strided and gradient.dtype is torch.float32 and gradient.device.type == "cpu":
            (small if gradient.numel() <= SMALL else large).append(index)
        else:
            large.append(index)
    if small:
        flat = torch._utils._flatten_dense_tensors([gradients[i] for i in small]).numpy()
        ends = np.cumsum([gradients[i].numel() for i in small])  # type: ignore[union-attr]
        with np.errstate(over="ignore", invalid="ignore"):
            sums = np.add.reduceat(flat * flat, np.concatenate([[0], ends[:-1]]), dtype=np.float64)
        known[small] = np.where(np.isfinite(sums), sums, np.inf)
    return Norms(known, large, _large_norms([gradients[i] for i in large]))  # type: ignore[misc]


def _large_norms(gradients: list[torch.Tensor]) -> list[torch.Tensor]:
    values = [g.coalesce().values() if g.is_sparse else g for g in gradients]
    values = [v.float() if v.dtype in (torch.float16, torch.bfloat16) else v for v in values]  # or it overflows
    return list(torch._foreach_norm(values)) if values else []
