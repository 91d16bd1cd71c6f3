"""When a tap opens the debugger: conditions on values, asked while the module's own frame is still there."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from nbdebug.instruments.debugger import ForwardTrace, stop_in_callers_frame
from nbdebug.instruments.reading import Reading
from nbdebug.twin.inert import LiveHook

__all__ = ["Stopper"]


@dataclass
class _Breakpoint:
    condition: Callable[[torch.Tensor], Any]
    left: float  # how often it may still stop


class Stopper:
    """The breakpoints of one tap."""

    def __init__(self, of: str, pick: Callable[[Any], Any], read: Callable[..., Reading]) -> None:
        self.of, self._pick, self._read = of, pick, read
        self._breakpoints: list[_Breakpoint] = []
        self._traces: list[ForwardTrace] = []

    def add(self, condition: Callable[[torch.Tensor], Any], times: int | None) -> None:
        """Stop also when this holds."""
        self._breakpoints.append(_Breakpoint(condition, float("inf") if times is None else times))

    def hooked(self, name: str, module: nn.Module) -> list[Any]:
        """Trace every call of a module; gradients have no frame of their own and need none of this."""
        if self.of == "gradient":
            return []
        before = LiveHook(lambda m, args, kwargs: self._before(name, m, (*args, *kwargs.values())))
        after = LiveHook(lambda m, args, output: self._after(name, m, output))
        return [
            module.register_forward_pre_hook(before, with_kwargs=True),
            module.register_forward_hook(after),
        ]

    def at_gradient(self, name: str, module: nn.Module, gradient: torch.Tensor, step: int, call: int) -> None:
        """Stop at the line that called backward, if a condition holds for this gradient."""
        banner = self._banner(name, module, gradient, step, call)
        if banner:
            stop_in_callers_frame(banner)

    def stop(self) -> None:
        """Trace nothing any more."""
        for trace in reversed(self._traces):
            trace.stop()
        self._traces = []

    def _before(self, name: str, module: nn.Module, given: Any) -> None:
        self._traces = [trace for trace in self._traces if trace.active]
        if torch._C._current_graph_task_id() != -1:  # a checkpoint computes again what was seen
            return
        if self.of == "output":
            trace = ForwardTrace(module, on_return=lambda value: self._banner(name, module, value))
        else:
            banner = self._banner(name, module, given)
            if not banner:
                return
            trace = ForwardTrace(module, on_call=banner)
        self._traces.append(trace)
        trace.start()

    def _after(self, name: str, module: nn.Module, output: Any) -> None:
        """End a trace that never met its forward, as when that is not written in Python, and stop where we can."""
        trace = next((t for t in reversed(self._traces) if t.module is module and t.active), None)
        if trace is None:
            return
        trace.stop()
        banner = trace.on_call or self._banner(name, module, output)
        if banner:
            stop_in_callers_frame(banner)

    def _banner(self, name: str, module: nn.Module, nest: Any, step: int | None = None, call: int | None = None) -> str:
        """Say why to stop, or nothing."""
        try:
            value = self._pick(nest)
            if not isinstance(value, torch.Tensor):
                return ""
            value = value.detach()
            with torch.no_grad():
                hit = next((b for b in self._breakpoints if b.left > 0 and bool(b.condition(value))), None)
                if hit is None:
                    return ""
                hit.left -= 1
                return f"nbdebug stops at the {self._read(name, module, value, step, call)}. c goes on, q ends."
        except Exception as error:
            self._breakpoints = []
            warnings.warn(
                f"the tap on {name} stops nowhere any more, because its condition failed: "
                f"{type(error).__name__}: {error}",
                stacklevel=2,
            )
            return ""
