"""Compare custom gradients with finite differences of their forward."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

import torch

from nbdebug.core.torch_compat import function_of
from nbdebug.experiments.autograd_graph import nodes_behind
from nbdebug.setup.sample_dataset import seed_all

__all__ = ["Derivatives", "FunctionCall", "calls_noted", "derivatives_of", "own_functions"]

PROBED = 24  # elements of one argument


@dataclass(frozen=True)
class FunctionCall:
    """One call of an autograd.Function: its class, the arguments it was given, and the module that called it."""

    function: Any
    args: tuple[Any, ...]
    names: tuple[str, ...]
    where: str


@dataclass(frozen=True)
class Derivatives:
    """The analytic and the numerical gradient, element by element if available."""

    given: torch.Tensor
    measured: torch.Tensor
    nature: str  # "smooth", "steps" or "identity"
    missing: bool
    precision: str


def own_functions(loss: torch.Tensor) -> list[Any]:
    """List the classes with a backward of their own in a graph, torch's own left out."""
    found = []
    for node in nodes_behind(loss.grad_fn):
        function = function_of(node)
        if function is not None and not function.__module__.startswith("torch.") and function not in found:
            found.append(function)
    return found


@contextmanager
def calls_noted(functions: list[Any], place: Callable[[], str]) -> Iterator[list[FunctionCall]]:
    """Note the arguments of every call of these functions, by Python's profiler, so that no class is changed."""
    noted: list[FunctionCall] = []
    codes: dict[CodeType, Any] = {inspect.unwrap(f.forward).__code__: f for f in functions}

    def profile(frame: FrameType, event: str, _: Any) -> None:
        function = codes.get(frame.f_code)
        if event != "call" or function is None:
            return
        names, values = _arguments(frame)
        if function.setup_context is torch.autograd.Function.setup_context:
            names, values = names[1:], values[1:]  # the first one is ctx
        copies = tuple(v.detach().clone().requires_grad_(v.requires_grad) if _is_real(v) else v for v in values)
        noted.append(FunctionCall(function, copies, names, place()))

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield noted
    finally:
        sys.setprofile(before)


def _arguments(frame: FrameType) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    code = frame.f_code
    names = list(code.co_varnames[: code.co_argcount])
    values = [frame.f_locals[name] for name in names]
    if code.co_flags & inspect.CO_VARARGS:
        rest = frame.f_locals[code.co_varnames[code.co_argcount + code.co_kwonlyargcount]]
        names += [f"argument {len(names) + i}" for i in range(len(rest))]
        values += rest
    return tuple(names), tuple(values)


def derivatives_of(call: FunctionCall, index: int) -> Derivatives | None:
    """Compare analytic and numerical gradient of one argument, in float64 if possible."""
    for precision, dtype, step in (("double", torch.float64, 1e-5), ("float", torch.float32, 1e-2)):
        try:
            return _compare(call, index, dtype, step, precision)
        except (RuntimeError, TypeError, ValueError, NotImplementedError, AssertionError):
            continue
    return None


def _compare(call: FunctionCall, index: int, dtype: torch.dtype, step: float, precision: str) -> Derivatives:
    args = [a.detach().to(dtype) if _is_real(a) else a for a in call.args]
    x = args[index]
    leaf = x.clone().requires_grad_()
    outputs = _outputs(call, [*args[:index], leaf * 1, *args[index + 1 :]])
    if any(output.dtype != dtype for output in outputs):
        raise TypeError("the function changes the dtype itself")
    weights = [torch.randn_like(output) for output in outputs]
    (gradient,) = torch.autograd.grad(_total(outputs, weights), [leaf], allow_unused=True)

    @torch.no_grad()
    def at(changed: torch.Tensor) -> float:
        return float(_total(_outputs(call, [*args[:index], changed.clone(), *args[index + 1 :]]), weights))

    given, measured = _measure(at, x, gradient, step)
    return Derivatives(given, measured, _nature(at, x, outputs, measured), gradient is None, precision)


def _measure(
    at: Callable[[torch.Tensor], float], x: torch.Tensor, gradient: torch.Tensor | None, step: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Take the derivative in single elements, leaving out those where it differs to both sides, as at a kink."""
    middle, given, measured = at(x), list[float](), list[float]()
    for element in torch.randperm(x.numel())[:PROBED].tolist():
        width = step * (1 + float(x.flatten()[element].abs()))
        moved = []
        for sign in (1, -1):
            other = x.clone()
            other.view(-1)[element] += sign * width
            moved.append(at(other))
        right, left = (moved[0] - middle) / width, (middle - moved[1]) / width
        if abs(right - left) > min(100 * step, 0.1) * (abs(right) + abs(left)) + 1e-6:
            continue
        measured.append((right + left) / 2)
        given.append(float(gradient.flatten()[element]) if gradient is not None else 0.0)
    return torch.tensor(given, dtype=torch.float64), torch.tensor(measured, dtype=torch.float64)


def _nature(at: Callable[[torch.Tensor], float], x: torch.Tensor, outputs: list[Any], measured: torch.Tensor) -> str:
    """Return whether the forward gives back what it is given, moves in steps, or has derivatives."""
    if len(outputs) == 1 and outputs[0].shape == x.shape and torch.equal(outputs[0], x):
        return "identity"
    if measured.numel() and float(measured.abs().max()) < 1e-8:
        far = x * (1 + torch.randn_like(x)) + torch.randn_like(x) * (float(x.abs().mean()) + 1)
        return "steps" if at(far) != at(x) else "constant"
    return "smooth"


def _outputs(call: FunctionCall, args: list[Any]) -> list[torch.Tensor]:
    seed_all(0)
    made = call.function.apply(*args)
    found = [o for o in (made if isinstance(made, (tuple, list)) else (made,)) if _is_real(o)]
    if not found:
        raise TypeError("no real-valued output")
    return found


def _total(outputs: list[torch.Tensor], weights: list[torch.Tensor]) -> torch.Tensor:
    return torch.stack([(o * w).sum() for o, w in zip(outputs, weights, strict=True)]).sum()


def _is_real(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.layout is torch.strided
