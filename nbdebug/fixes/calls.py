"""Rewrite single calls of torch functions inside the forward of a copy, made by a module, a function or a method.

A fix such as "remove the softmax" can then be applied to any model without reading its source.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from nbdebug.errors import NotApplicable
from nbdebug.fixes import patch
from nbdebug.sandbox import Sandbox
from nbdebug.setup.loss import main_output
from nbdebug.setup.nested import map_leaves

__all__ = ["Call", "activation_calls", "behind_model", "name_of", "rewrite_calls", "rewrite_loss_calls"]

ACTIVATIONS = {
    "softmax", "log_softmax", "sigmoid", "logsigmoid", "tanh", "relu", "relu6", "hardtanh", "hardsigmoid", "softplus",
    "softsign", "elu", "selu", "celu", "gelu", "silu", "leaky_relu", "clamp", "clip", "clamp_min", "clamp_max", "exp",
}  # fmt: skip


class Call:
    """One call of a torch function: its name, its arguments, and how to execute it."""

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs
        self.name = name_of(function)

    def go_on(self, *args: Any, **kwargs: Any) -> Any:
        """Execute the call, with other arguments where they are given."""
        return self.function(*(args or self.args), **{**self.kwargs, **kwargs})

    @property
    def setup(self) -> Any:
        """Return the first argument of the call."""
        return self.args[0] if self.args else self.kwargs.get("input")

    def option(self, name: str, place: int) -> Any:
        """Return an argument passed by name or by position; None where it was omitted."""
        return self.kwargs.get(name, self.args[place] if len(self.args) > place else None)

    def with_option(self, name: str, place: int, value: Any) -> Any:
        """Execute the call with this argument replaced, passed the way it was given."""
        if len(self.args) > place:
            return self.function(*self.args[:place], value, *self.args[place + 1 :], **self.kwargs)
        return self.function(*self.args, **{**self.kwargs, name: value})


Change = Callable[[Call], Any]


def name_of(function: Any) -> str:
    """Return the name of a torch function or method, without the underscore of in-place variants."""
    return str(getattr(function, "__name__", "")).rstrip("_")


class _Rewriting(TorchFunctionMode):
    def __init__(self, change: Change) -> None:
        super().__init__()
        self.change = change

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.change(Call(func, tuple(args), dict(kwargs or {})))


def rewrite_calls(sandbox: Sandbox, make_change: Callable[[], Change]) -> None:
    """Route every forward pass of the copy through a change; a new one is created for each pass."""
    model = sandbox.model
    if isinstance(model, torch.jit.ScriptModule) or type(model).__name__ == "ScriptShell":
        raise NotApplicable("the calls inside a scripted model cannot be rewritten")
    known = model.forward
    inner = known.__func__ if isinstance(known, types.MethodType) and known.__self__ is model else None

    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        with _Rewriting(make_change()):
            return inner(self, *args, **kwargs) if inner is not None else known(*args, **kwargs)

    model.forward = types.MethodType(forward, model)


def rewrite_loss_calls(sandbox: Sandbox, make_change: Callable[[], Change]) -> None:
    """Route every call of a custom loss through a change as well."""

    def around(function: Any) -> Any:
        if function is None or type(function).__module__.startswith("torch."):
            return function

        def changed(*args: Any, **kwargs: Any) -> Any:
            with _Rewriting(make_change()):
                return function(*args, **kwargs)

        return changed

    sandbox.loss_fn, sandbox.compute_loss = around(sandbox.loss_fn), around(sandbox.compute_loss)


@contextmanager
def _recording(calls_seen: list[tuple[Call, Any]], names: set[str]) -> Iterator[None]:
    def record(call: Call) -> Any:
        result = call.go_on()
        if call.name in names:
            calls_seen.append((call, result))
        return result

    with _Rewriting(record):
        yield


def behind_model(sandbox: Sandbox, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Transform the main output tensor of the copy, wherever it is in a nested output."""

    def hook(module: nn.Module, args: Any, output: Any) -> Any:
        main = main_output(output)
        if main is None:
            return None
        return map_leaves(lambda _, leaf: change(leaf) if leaf is main else leaf, output)

    if isinstance(sandbox.model, torch.jit.ScriptModule):
        raise NotApplicable("a scripted model does not accept hooks")
    sandbox.model.register_forward_hook(hook)


@patch("shares")
def drop_last_activation(sandbox: Sandbox, *, inverse: str = "", instead: str = "") -> None:
    """Remove the activation that produces the output, or replace it with `instead`.

    Where there is no such call, invert it with `inverse`.
    """
    _, place = activation_calls(sandbox, ACTIVATIONS)
    other: Callable[[Any], Any] = torch.sigmoid if instead == "sigmoid" else lambda scores: scores
    if place is None and not inverse:
        raise NotApplicable("the last operation of the model is not an activation that can be removed")
    if place is None:
        behind_model(sandbox, _INVERSES[inverse])
        return

    def make_change() -> Change:
        calls = 0

        def change(call: Call) -> Any:
            nonlocal calls
            if call.name not in ACTIVATIONS:
                return call.go_on()
            calls += 1
            return other(call.setup) if calls - 1 == place else call.go_on()

        return change

    rewrite_calls(sandbox, make_change)


_INVERSES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "log": lambda p: p.clamp_min(torch.finfo(p.dtype).tiny).log(),
    "logit": lambda p: p.logit(eps=1e-7),
}


@torch.no_grad()
def activation_calls(sandbox: Sandbox, names: Collection[str]) -> tuple[int, int | None]:
    """Return how often these functions are called in a forward pass, and which call's result is the output, if any."""
    calls_seen: list[tuple[Call, Any]] = []
    with sandbox.mode(training=False), _recording(calls_seen, set(names)):
        output = main_output(sandbox.forward(sandbox.batch()))
    for place in reversed(range(len(calls_seen))) if output is not None else ():
        result = calls_seen[place][1]
        if output is not None and isinstance(result, torch.Tensor) and _memory(result) == _memory(output):
            return len(calls_seen), place
    return len(calls_seen), None


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
