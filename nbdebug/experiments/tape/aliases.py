"""Views of one memory: what an in-place op on one of them changes in the others."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch

from nbdebug.core.torch_compat import base_of
from nbdebug.experiments.tape.ops import Op, Use

if TYPE_CHECKING:
    from nbdebug.experiments.tape.record import Recorder

__all__ = ["Aliases"]


class Aliases:
    """Which recorded tensors are views of which base."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = weakref.proxy(recorder)  # or a run's tensors would stay until the garbage collector comes
        self._views: dict[int, list[weakref.ref[torch.Tensor]]] = {}

    def note(self, tensor: torch.Tensor) -> None:
        """Remember a view with its base."""
        base = base_of(tensor)
        if base is not None:
            self._views.setdefault(id(base), []).append(weakref.ref(tensor))

    def after_change(self, tensor: torch.Tensor) -> None:
        """Write down that an in-place op on a tensor has changed its base, and the other views of that."""
        viewed = base_of(tensor)
        base = tensor if viewed is None else viewed
        if base is not tensor:
            self._update(base, tensor, _scattered)
        for reference in self._views.get(id(base), []):
            view = reference()
            if view is not None and view is not tensor and base_of(view) is base:
                self._update(view, base, _viewed)

    def _update(self, tensor: torch.Tensor, by: torch.Tensor, func: Any) -> None:
        recording = self._recorder.recording
        old, new = self._recorder.number_of(tensor), self._recorder.number_of(by)
        part = by if func is _scattered else tensor
        where = (tuple(part.shape), part.stride(), part.storage_offset())
        op = Op(len(recording.ops), "as_strided", func, (Use(old), Use(new), *where), {}, (old, new))
        recording.ops.append(op)
        before, after = recording.values[old], recording.values[new]
        taint, sources = before.taint | after.taint, before.sources | after.sources
        value = self._recorder.new_value(tensor, taint, sources, before.is_live or after.is_live, op.index)
        op.outputs = (value.number,)


def _scattered(base: torch.Tensor, part: torch.Tensor, size: Any, stride: Any, offset: int) -> torch.Tensor:
    return torch.as_strided_scatter(base.contiguous(), part, size, stride, offset)


def _viewed(view: torch.Tensor, base: torch.Tensor, size: Any, stride: Any, offset: int) -> torch.Tensor:
    return torch.as_strided(base.contiguous(), size, stride, offset)
