"""Looks into the memory of tensors by its address.

A pass makes its tensors anew, mostly where some of them were before. To ask a tensor for its address costs a
tenth of what it costs to make an array of it, so the arrays are made once for each address and kept. They own nothing:
one is looked through only while a tensor of the same size lives at its address.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch

__all__ = ["Memory"]

MOST = 4096  # addresses that are kept for the tensors of one size
Layout: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]  # shape and strides of what is looked at
_FLOAT = np.dtype(np.float32)


class _Windows(dict[int, np.ndarray]):
    """The arrays of the tensors of one size, by their address: they change places from step to step."""

    def __init__(self, elements: int, layout: Layout) -> None:
        super().__init__()
        self._held, self._layout = ctypes.c_float * elements, layout

    def __missing__(self, address: int) -> np.ndarray:
        if not address:
            raise RuntimeError("the tensor's memory has been freed")
        if len(self) >= MOST:
            self.clear()
        shape, strides = self._layout
        held: Any = self._held.from_address(address)
        window: np.ndarray = np.ndarray(shape, _FLOAT, held, 0, strides)
        self[address] = window
        return window


class Memory:
    """The memory of some tensors of known sizes; of each is looked at what its layout says."""

    def __init__(self, sizes: Sequence[int], layouts: Sequence[Layout]) -> None:
        self.sizes = list(sizes)
        kinds = list(zip(sizes, layouts, strict=True))
        windows = {kind: _Windows(*kind) for kind in kinds}
        self._windows = [windows[kind] for kind in kinds]

    def of(self, tensors: Sequence[torch.Tensor]) -> list[np.ndarray] | None:
        """Return an array for each; None where one is missing, of another size or type, elsewhere, or not
        contiguous.
        """
        try:
            # Lists, because generators cost more where there are few.
            if [t.numel() for t in tensors] != self.sizes or 0 in self.sizes:
                return None
            if not all([t.is_cpu and t.dtype is torch.float32 and t.is_contiguous() for t in tensors]):  # noqa: C419
                return None
            return [own[t.data_ptr()] for own, t in zip(self._windows, tensors, strict=True)]
        except (AttributeError, RuntimeError):  # no tensor, or one without memory of its own
            return None
