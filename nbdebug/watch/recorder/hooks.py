"""Hooks that leave no trace: in a copy or a saved file of a watched model they do nothing and need no nbdebug."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from types import FrameType
from typing import Any

import torch
from torch import nn

from nbdebug.core.torch_compat import RUN_BACKWARD, SCALER_STEPS, forward_hooks, write_count

__all__ = [
    "LayerHook",
    "QuietHook",
    "backward_origin",
    "is_compiling",
    "is_in_step",
    "is_traced",
    "scaler_of_step",
    "sealed",
]

HOOK_DEPTH = 4  # frames out from `backward_origin`: the hook, its guard, the fast path, and what called that
MOST_CALLS = 8  # of one module in one pass that are looked at: a recurrent cell may be called a thousand times
_TENSOR = torch.Tensor
_OPTIMIZERS = torch.optim.Optimizer.profile_hook_step.__code__.co_filename  # where a step goes through its hooks

# The tracer takes both for True. Only the second knows of an export that runs the model itself, and it costs more.
is_compiling, is_traced = torch.compiler.is_dynamo_compiling, torch.compiler.is_compiling


class QuietHook:
    """Calls one function; a copy of it, or what is read back from a file, takes any arguments and does nothing."""

    __slots__ = ("act",)
    __torch_unserializable__ = True  # a tensor that carries it is saved without a warning

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

    __slots__ = ("calls", "fail", "index", "left", "module", "slot", "take")

    def __init__(
        self, index: int, module: nn.Module, calls: list[tuple[int, Any, int]], fail: Callable[[Exception], None]
    ) -> None:
        self.index, self.module, self.calls, self.left, self.fail = index, module, calls, 0, fail
        self.slot: dict[int, Any] = forward_hooks(module)
        self.take: Callable[[Any], Any] | None = None  # samples at once, where a later module writes into the output

    def __call__(self, module: nn.Module, args: Any, output: Any) -> None:
        """Note the output; nothing is computed here unless it has to be."""
        if self.left <= 0 or is_compiling():
            return
        self.left -= 1
        if type(output) is _TENSOR and self.take is None:
            try:
                self.calls.append((self.index, output, write_count(output)))
            except RuntimeError:  # one of inference mode has no version
                self.calls.append((self.index, output, -2))
        else:
            self._see(output)

    def _see(self, output: Any) -> None:
        """Note what is not one plain tensor, or will be written over; an error in it does not reach the training."""
        try:
            taken = output if self.take is None else self.take(output)
            if taken is not None:
                self.calls.append((self.index, taken, -2 if self.take is None else -1))
        except Exception as error:
            self.fail(error)


def sealed(layers: Sequence[nn.Module]) -> list[tuple[nn.Module, list[dict[int, Any]]]]:
    """Return the modules that compute another way in eval mode if anything inside has a hook, with all those hooks.

    The numbers of the two ways differ in the last bits, and for a row that is all padding one of them gives NaN.
    """
    known = set(map(id, layers))
    wholes = [layer for layer in layers if isinstance(layer, nn.TransformerEncoderLayer)]
    return [(whole, [forward_hooks(part) for part in whole.modules() if id(part) in known]) for whole in wholes]


def backward_origin() -> tuple[Sequence[Any], bool] | None:
    """Return what the running backward pass began with, mostly tensors, and whether it adds to `.grad`.

    The engine calls hooks on the thread that asked for the pass, or on a thread of the device while that one waits; so
    the function that started it is on some stack, and nothing of torch has to be patched to see it.
    """
    try:
        frame: FrameType | None = sys._getframe(HOOK_DEPTH)
    except ValueError:  # on a thread of its own nothing is further out
        frame = None
    if frame is None or frame.f_code is not RUN_BACKWARD:
        frame = _engine_frame(frame)
        if frame is None:
            return None
    held = frame.f_locals
    named = held.get("kwargs")
    return held.get("t_outputs", ()), not named or named.get("accumulate_grad", True)


def _engine_frame(frame: FrameType | None) -> FrameType | None:
    """Look for the function that started the backward pass further out, and then on the other threads."""
    for _ in range(8):
        frame = frame.f_back if frame is not None else None
        if frame is not None and frame.f_code is RUN_BACKWARD:
            return frame
    return next((other for other in sys._current_frames().values() if other.f_code is RUN_BACKWARD), None)


def is_in_step() -> bool:
    """Whether an optimizer is making a step now, on this thread: its hooks are being gone through."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == _OPTIMIZERS and frame.f_code.co_name == "wrapper":
            return True
        frame = frame.f_back
    return False


def scaler_of_step(frames: int = 10) -> Any:
    """Return the GradScaler that is making the optimizer step, or None; so many frames are looked at."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(frames):
        if frame is None:
            return None
        if frame.f_code in SCALER_STEPS:
            return frame.f_locals.get("self")
        frame = frame.f_back
    return None
