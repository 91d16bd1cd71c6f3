"""Make sure that a copy runs on its own: no module of the user's model is entered, none of its weights is used.

Rebinding exchanges every reference that can be found. What a library keeps elsewhere (in a registry, in compiled code)
cannot be; a copy that reaches the user's model by such a way would train nothing, and every verdict on it would be
wrong. So the first pass of each kind is watched, and ended at the first use of something live.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

from nbdebug.errors import UNCHANGED, CopyNotIsolated
from nbdebug.sandbox.functional import FunctionalModel
from nbdebug.setup import Setup, unwrap
from nbdebug.setup.nested import leaves

__all__ = ["isolated", "refuse_leaking", "restores_hooks"]

# Reading these of a weight gives a tensor with its values; all else that is read of one only describes it.
_VALUES = ("data", "T", "H", "mT", "mH", "real", "imag")


def refuse_leaking(setup: Setup) -> None:
    """Raise if a copy of this model was seen to use the model itself."""
    for leak in setup.isolation.values():
        if leak:
            raise CopyNotIsolated(leak)


@contextmanager
def isolated(setup: Setup, copied: nn.Module, what: str) -> Iterator[None]:
    """Watch the first run of this kind on a copy; raise when it enters a live module or uses a live parameter."""
    if what in setup.isolation or isinstance(copied, FunctionalModel):  # which runs live modules with its own tensors
        refuse_leaking(setup)
        yield
        return
    watch = _Watch(unwrap(setup.model), what)
    try:
        with watch.modules_watched(), watch:
            yield
    finally:
        if watch.leak:  # also where a handler of the user's has caught it
            setup.isolation[what] = watch.leak
    setup.isolation[what] = watch.leak
    refuse_leaking(setup)


class _Watch(TorchFunctionMode):
    """Ends a run at the first operation on a trainable parameter of the live model."""

    def __init__(self, live: nn.Module, what: str) -> None:
        super().__init__()
        self.leak, self._what, self._thread = "", what, threading.get_ident()
        # A module without tensors may be shared by all, as an activation function of a library is.
        self._modules = {id(m): n or "model" for n, m in live.named_modules() if _has_tensors(m)}
        self._parameters = {id(p): name for name, p in live.named_parameters() if p.requires_grad}

    @contextmanager
    def modules_watched(self) -> Iterator[None]:
        handle = register_module_forward_pre_hook(self._entered)
        try:
            yield
        finally:
            handle.remove()

    def _entered(self, module: nn.Module, args: Any) -> None:
        if id(module) in self._modules and threading.get_ident() == self._thread:  # others may train it meanwhile
            self._refuse(f"the forward of {self._modules[id(module)]} ({type(module).__name__})")

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") != "__get__" or _property(func) in _VALUES:
            for tensor in _tensors((*args, *(kwargs or {}).values())):
                if id(tensor) in self._parameters:
                    self._refuse(f"the parameter {self._parameters[id(tensor)]}")
        return func(*args, **(kwargs or {}))

    def _refuse(self, used: str) -> None:
        self.leak = self.leak or (
            f"model: its copy does not run on its own: {self._what} on the copy used {used} of your own model.\n"
            "  Expected: code that reaches the model by `self`, by an argument, or by a Python closure or global.\n"
            "  What to do: hand over the model before a library wraps or patches it, or take it out of registries and "
            f"caches that its forward reads.\n  {UNCHANGED}"
        )
        raise CopyNotIsolated(self.leak)


def restores_hooks() -> list[Callable[[], Any]]:
    """Return what removes global hooks and modes that came since, also where a second interrupt left them behind."""
    hooks, modes = torch.nn.modules.module._global_forward_pre_hooks, torch._C._len_torch_function_stack()
    known = set(hooks)

    def remove_hooks() -> None:
        for key in [key for key in hooks if key not in known]:
            hooks.pop(key, None)

    def leave_modes() -> None:
        while torch._C._len_torch_function_stack() > modes:
            torch._C._pop_torch_function_stack()

    return [remove_hooks, leave_modes]


def _has_tensors(module: nn.Module) -> bool:
    return any(True for _ in module.parameters()) or any(True for _ in module.buffers())


def _property(func: Any) -> str:
    return str(getattr(getattr(func, "__self__", None), "__name__", ""))


def _tensors(args: Iterable[Any]) -> Iterator[Any]:
    for value in args:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple, dict)):
            yield from (leaf for _, leaf in leaves(value) if isinstance(leaf, torch.Tensor))
