"""Look at every module of a copy while it runs, in the order of the calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

__all__ = ["CallStack", "Given", "paths_of", "tapped"]

OnCall = Callable[[str, nn.Module, Any, Any], Any]


class Given(tuple[Any, ...]):
    """The inputs of one call in order, positional ones first; the names of the others are kept beside."""

    names: tuple[str, ...] = ()

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional ones."""
        return tuple(self[: len(self) - len(self.names)])

    @property
    def kwargs(self) -> dict[str, Any]:
        """Those that were given by name."""
        return dict(zip(self.names, self[len(self) - len(self.names) :], strict=True))


def _given(args: Any, kwargs: dict[str, Any]) -> Given:
    given = Given((*args, *kwargs.values()))
    given.names = tuple(kwargs)
    return given


def paths_of(model: nn.Module) -> dict[str, nn.Module]:
    """Return every module by its path; the root is called `model`."""
    return {path or "model": module for path, module in model.named_modules()}


@contextmanager
def tapped(
    model: nn.Module, after: OnCall | None = None, before: Callable[[str, nn.Module, Any], Any] | None = None
) -> Iterator[None]:
    """Call `after(path, module, inputs, output)` and `before(path, module, inputs)` around every module call.

    What `after` returns, unless it is None, takes the place of the output; so an experiment can change what flows.
    """
    handles = []
    try:
        for path, module in paths_of(model).items():
            if isinstance(module, torch.jit.ScriptModule):
                continue  # compiled code calls no hooks, and none can be registered
            if before is not None:
                handles.append(module.register_forward_pre_hook(_before(path, before), with_kwargs=True))
            if after is not None:
                handles.append(module.register_forward_hook(_after(path, after), with_kwargs=True))
        yield
    finally:
        for handle in handles:
            handle.remove()


def _before(path: str, function: Callable[[str, nn.Module, Any], Any]) -> Callable[..., Any]:
    def hook(module: nn.Module, args: Any, kwargs: Any) -> None:
        function(path, module, _given(args, kwargs))

    return hook


def _after(path: str, function: OnCall) -> Callable[..., Any]:
    def hook(module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        return function(path, module, _given(args, kwargs), output)

    return hook


class CallStack:
    """Which modules are being called right now, so that an exception can be placed at the innermost one."""

    def __init__(self) -> None:
        self.open: list[tuple[str, nn.Module, Any]] = []
        self.done: list[str] = []

    def enter(self, path: str, module: nn.Module, inputs: Any) -> None:
        """Note that a module's forward begins."""
        self.open.append((path, module, inputs))

    def leave(self, path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        """Note that a module's forward has ended."""
        while self.open and self.open.pop()[0] != path:
            continue
        self.done.append(path)

    @property
    def innermost(self) -> tuple[str, nn.Module, Any] | None:
        """The module that was running when everything stopped."""
        return self.open[-1] if self.open else None
