"""Make sure that a copy runs on its own: no module of the user's model is entered, none of its tensors is used.

Rebinding exchanges every reference that can be found. What a library keeps elsewhere (in a registry, in compiled code)
cannot be; a copy that reaches the user's model by such a way would train nothing, and every verdict on it would be
wrong. So the first pass of each kind is watched, and ended at the first use of a live module or parameter. What is
reached as a buffer or by its memory alone is run on a clone meanwhile; `verify_copy` finds out whether that matters.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

from nbdebug.errors import UNCHANGED, CopyNotIsolated
from nbdebug.sandbox.functional import FunctionalModel
from nbdebug.sandbox.live_tensors import LiveTensors
from nbdebug.setup import Setup, unwrap
from nbdebug.setup.nested import map_tensors, tensors_in

__all__ = ["Watch", "isolated", "refuse_leak", "refuse_leaking"]

# Reading these of a weight gives a tensor with its values; all other properties only describe it.
_VALUES = ("data", "T", "H", "mT", "mH", "real", "imag")
_DESCRIBE = frozenset(
    ("__format__", "__hash__", "__len__", "__repr__", "data_ptr", "dim", "element_size", "is_complex", "is_contiguous",
     "is_floating_point", "ndimension", "nelement", "numel", "size", "storage_offset", "stride", "untyped_storage")
)  # fmt: skip


def refuse_leaking(setup: Setup) -> None:
    """Raise if a copy of this model was seen to use the model itself."""
    for leak in setup.isolation.values():
        if leak:
            raise CopyNotIsolated(leak)


def refuse_leak(setup: Setup, what: str, seen: str) -> None:
    """Keep for good that a run on the copy was not on its own, and raise it."""
    setup.isolation[what] = _says(what, seen)
    refuse_leaking(setup)


@contextmanager
def isolated(setup: Setup, copied: nn.Module, what: str) -> Iterator[Watch | None]:
    """Watch the first run of this kind on a copy; raise when it enters a live module or uses a live parameter."""
    if what in setup.isolation:
        refuse_leaking(setup)
        yield None
        return
    watch = Watch(unwrap(setup.model), copied, what)
    setup.isolation[what] = ""  # a run within this one is watched along with it
    try:
        with watch.modules_watched(), watch:
            yield watch
    except BaseException:
        del setup.isolation[what]  # it did not come to its end, so that the next one is watched again
        raise
    finally:
        if watch.leak:  # also where a handler of the user's has caught it
            setup.isolation[what] = watch.leak
    if watch.live.written:
        refuse_leak(setup, what, f"writes to {watch.live.written[0]}")
    refuse_leaking(setup)


class Watch(TorchFunctionMode):
    """Ends a run at the first operation on a live parameter; runs on clones of what else has the memory of live ones.

    A stand-in for a model that cannot be copied enters the live modules, with its own tensors in them.
    """

    def __init__(self, live: nn.Module, copied: nn.Module, what: str) -> None:
        super().__init__()
        self.leak, self._what, self._thread = "", what, threading.get_ident()
        # A module without tensors may be shared by all, as an activation function of a library is.
        modules = [] if isinstance(copied, FunctionalModel) else live.named_modules()
        self._modules = {id(m): n or "model" for n, m in modules if _has_tensors(m)}
        self.live = LiveTensors(live, copied)

    @contextmanager
    def modules_watched(self) -> Iterator[None]:
        """Look at every module that is entered, by whatever way."""
        handle = register_module_forward_pre_hook(self._entered)
        try:
            yield
        finally:
            handle.remove()

    def _entered(self, module: nn.Module, args: Any) -> None:
        if id(module) in self._modules and threading.get_ident() == self._thread:  # others may train it meanwhile
            self._refuse(f"used the forward of {self._modules[id(module)]} ({type(module).__name__})")

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.compiler.is_dynamo_compiling():  # a graph break here would end the compiling of the user's function
            return func(*args, **kwargs)
        if not _describes(func):
            for tensor in tensors_in((args, kwargs)):
                if self.live.name_of(tensor):
                    self._refuse_trained(tensor)
                    args, kwargs = map_tensors(self._own, (args, kwargs))
        return func(*args, **kwargs)

    def _refuse_trained(self, tensor: torch.Tensor) -> None:
        if id(tensor) in self.live.parameters or tensor.requires_grad:
            self._refuse(f"used the parameter {self.live.name_of(tensor)}")

    def _own(self, tensor: torch.Tensor) -> torch.Tensor:
        return self.live.stand_in(tensor) if self.live.name_of(tensor) else tensor

    def _refuse(self, seen: str) -> None:
        self.leak = self.leak or _says(self._what, seen)
        raise CopyNotIsolated(self.leak)


def _says(what: str, seen: str) -> str:
    return (
        f"model: its copy does not run on its own: {what} on the copy {seen} of your own model.\n"
        "  Expected: code that reaches the model by `self`, by an argument, or by a Python closure or global.\n"
        "  What to do: hand over the model before a library wraps or patches it, or take it out of registries and "
        f"caches that its forward reads.\n  {UNCHANGED}"
    )


def _has_tensors(module: nn.Module) -> bool:
    return any(True for _ in module.parameters()) or any(True for _ in module.buffers())


def _describes(func: Any) -> bool:
    """Whether a function only says what kind of tensor this is, and never reads its values."""
    name = getattr(func, "__name__", "")
    if name != "__get__":
        return name in _DESCRIBE
    return str(getattr(getattr(func, "__self__", None), "__name__", "")) not in _VALUES
