"""Change single calls of torch's functions inside a twin's forward, whoever makes them: a module, a function, a method.

So that a remedy such as "leave the softmax out" can be tried on any model, without a look at its source.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from nbdebug.errors import NotApplicable
from nbdebug.remedies import patch
from nbdebug.subject.loss import main_output
from nbdebug.subject.nest import map_leaves
from nbdebug.twin import Twin

__all__ = ["Call", "behind_model", "name_of", "rewrite_calls", "rewrite_loss_calls"]

SQUASHING = {
    "softmax", "log_softmax", "sigmoid", "logsigmoid", "tanh", "relu", "relu6", "hardtanh", "hardsigmoid", "softplus",
    "softsign", "elu", "selu", "celu", "gelu", "silu", "leaky_relu", "clamp", "clip", "clamp_min", "clamp_max", "exp",
}  # fmt: skip


class Call:
    """One call of one of torch's functions: its name, its arguments, and how to go on with it."""

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs
        self.name = name_of(function)

    def go_on(self, *args: Any, **kwargs: Any) -> Any:
        """Make the call, with other arguments where they are given."""
        return self.function(*(args or self.args), **{**self.kwargs, **kwargs})

    @property
    def subject(self) -> Any:
        """What the function is called with first."""
        return self.args[0] if self.args else self.kwargs.get("input")

    def option(self, name: str, place: int) -> Any:
        """Give an argument that may come by name or by place; None where it was left out."""
        return self.kwargs.get(name, self.args[place] if len(self.args) > place else None)

    def with_option(self, name: str, place: int, value: Any) -> Any:
        """Make the call with this argument exchanged, in the way it was given."""
        if len(self.args) > place:
            return self.function(*self.args[:place], value, *self.args[place + 1 :], **self.kwargs)
        return self.function(*self.args, **{**self.kwargs, name: value})


Change = Callable[[Call], Any]


def name_of(function: Any) -> str:
    """Give the name of a function or method of torch without the mark of those that work in place."""
    return str(getattr(function, "__name__", "")).rstrip("_")


class _Rewriting(TorchFunctionMode):
    def __init__(self, change: Change) -> None:
        super().__init__()
        self.change = change

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.change(Call(func, tuple(args), dict(kwargs or {})))


def rewrite_calls(twin: Twin, make_change: Callable[[], Change]) -> None:
    """Let every pass of the twin's forward go through a change; it is made anew for each pass."""
    model = twin.model
    if isinstance(model, torch.jit.ScriptModule) or type(model).__name__ == "ScriptShell":
        raise NotApplicable("the calls inside of a scripted model cannot be changed")
    known = model.forward
    inner = known.__func__ if isinstance(known, types.MethodType) and known.__self__ is model else None

    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        with _Rewriting(make_change()):
            return inner(self, *args, **kwargs) if inner is not None else known(*args, **kwargs)

    model.forward = types.MethodType(forward, model)


def rewrite_loss_calls(twin: Twin, make_change: Callable[[], Change]) -> None:
    """Let every call of a loss that is written by hand go through a change, too."""

    def around(function: Any) -> Any:
        if function is None or type(function).__module__.startswith("torch."):
            return function

        def changed(*args: Any, **kwargs: Any) -> Any:
            with _Rewriting(make_change()):
                return function(*args, **kwargs)

        return changed

    twin.loss_fn, twin.compute_loss = around(twin.loss_fn), around(twin.compute_loss)


@contextmanager
def _listening(heard: list[tuple[Call, Any]], names: set[str]) -> Iterator[None]:
    def listen(call: Call) -> Any:
        result = call.go_on()
        if call.name in names:
            heard.append((call, result))
        return result

    with _Rewriting(listen):
        yield


def behind_model(twin: Twin, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Change the main tensor that the twin gives, wherever it stands in its output."""

    def hook(module: nn.Module, args: Any, output: Any) -> Any:
        main = main_output(output)
        if main is None:
            return None
        return map_leaves(lambda _, leaf: change(leaf) if leaf is main else leaf, output)

    if isinstance(twin.model, torch.jit.ScriptModule):
        raise NotApplicable("a scripted model takes no hooks")
    twin.model.register_forward_hook(hook)


@patch("shares")
def drop_last_activation(twin: Twin, *, inverse: str = "", instead: str = "") -> None:
    """Leave out the activation whose result is the output, or take another `instead`.

    Where there is no such call, undo it by its `inverse`.
    """
    place = _last_squashing(twin)
    other: Callable[[Any], Any] = torch.sigmoid if instead == "sigmoid" else lambda scores: scores
    if place is None and not inverse:
        raise NotApplicable("no activation that could be left out is the last operation of the model")
    if place is None:
        behind_model(twin, _INVERSES[inverse])
        return

    def make_change() -> Change:
        calls = 0

        def change(call: Call) -> Any:
            nonlocal calls
            if call.name not in SQUASHING:
                return call.go_on()
            calls += 1
            return other(call.subject) if calls - 1 == place else call.go_on()

        return change

    rewrite_calls(twin, make_change)


_INVERSES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "log": lambda p: p.clamp_min(torch.finfo(p.dtype).tiny).log(),
    "logit": lambda p: p.logit(eps=1e-7),
}


@torch.no_grad()
def _last_squashing(twin: Twin) -> int | None:
    """Give the number, among the calls of activations, of the one whose result is the output or a view of it."""
    heard: list[tuple[Call, Any]] = []
    with twin.mode(training=False), _listening(heard, SQUASHING):
        output = main_output(twin.forward(twin.batch()))
    if output is None:
        return None
    for place in reversed(range(len(heard))):
        result = heard[place][1]
        if isinstance(result, torch.Tensor) and _memory(result) == _memory(output):
            return place
    return None


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
