"""Hooks that leave no trace: in a copy or a saved file of a watched model they do nothing and need no nbdebug."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.autograd import graph

__all__ = ["LayerHook", "QuietHook", "backward_origin", "is_compiling", "scaler_of_step"]

MOST_CALLS = 8  # of one module in one pass that are looked at: a recurrent cell may be called a thousand times
_TENSOR = torch.Tensor
# Every backward pass of Python starts in this function.
_ENGINE = getattr(getattr(graph, "_engine_run_backward", None), "__code__", None)
_SCALER_STEPS = tuple(
    getattr(torch.amp.GradScaler, name).__code__
    for name in ("step", "_maybe_opt_step")
    if hasattr(torch.amp.GradScaler, name)
)


is_compiling = torch.compiler.is_compiling


class QuietHook:
    """Calls one function; a copy of it, or what is read back from a file, takes any arguments and does nothing."""

    __slots__ = ("act",)

    def __init__(self, act: Callable[..., Any]) -> None:
        self.act = act

    def __call__(self, *args: Any) -> None:
        """Pass everything on, and change nothing."""
        if not is_compiling():
            self.act(*args)

    def __reduce__(self) -> tuple[Any, ...]:
        """Write down something of Python's own that does nothing."""
        return getattr, (nullcontext(), "__exit__")

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Leave the copy of a model unwatched."""
        return nullcontext().__exit__


class LayerHook(QuietHook):
    """Keeps a reference to what one module gave, with its version, so that a later write in place is noticed."""

    __slots__ = ("calls", "index", "left", "module", "slot", "take")

    def __init__(self, index: int, module: nn.Module, calls: list[tuple[int, Any, int]]) -> None:
        self.index, self.module, self.calls, self.left = index, module, calls, 0
        self.slot: dict[int, Any] = module._forward_hooks
        self.take: Callable[[Any], Any] | None = None  # samples at once, where a later module writes into the output

    def __call__(self, module: nn.Module, args: Any, output: Any) -> None:
        """Note the output; nothing is computed here unless it has to be."""
        if self.left <= 0 or is_compiling():
            return
        self.left -= 1
        if self.take is not None:
            taken = self.take(output)
            if taken is not None:
                self.calls.append((self.index, taken, -1))
        elif type(output) is _TENSOR:
            self.calls.append((self.index, output, output._version))
        else:
            self.calls.append((self.index, output, -2))


def backward_origin() -> tuple[tuple[torch.Tensor, ...], bool] | None:
    """Give the tensors that the running backward pass began with, and whether it adds to `.grad`.

    The engine calls hooks on the thread that asked for the pass, or on a thread of the device while that one waits; so
    the function that started it is on some stack, and nothing of torch has to be patched to see it.
    """
    frame: FrameType | None = sys._getframe(1)
    for _ in range(8):
        if frame is None:
            break
        if frame.f_code is _ENGINE:
            return _origin(frame)
        frame = frame.f_back
    for other in list(sys._current_frames().values()):
        if other.f_code is _ENGINE:
            return _origin(other)
    return None


def _origin(frame: FrameType) -> tuple[tuple[torch.Tensor, ...], bool]:
    held = frame.f_locals
    named, outputs = held.get("kwargs"), held.get("t_outputs", ())
    accumulates = bool(named.get("accumulate_grad", True)) if named else True
    return tuple([t for t in outputs if isinstance(t, _TENSOR)]), accumulates  # a list is quicker than a generator


def scaler_of_step() -> Any:
    """Give the GradScaler that is making the optimizer step, or None."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(10):
        if frame is None:
            return None
        if frame.f_code in _SCALER_STEPS:
            return frame.f_locals.get("self")
        frame = frame.f_back
    return None
