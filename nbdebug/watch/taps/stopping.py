"""When a tap opens the debugger: conditions on values, asked while the module's own frame is still there."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from nbdebug.experiments.inert_hooks import LiveHook
from nbdebug.watch.taps.debugger import ForwardTrace, stop_in_callers_frame
from nbdebug.watch.taps.reading import Reading
from nbdebug.watch.taps.steps import Moment, Steps, is_no_real_pass, is_recomputing

__all__ = ["Stopper"]


@dataclass
class _Breakpoint:
    condition: Callable[[torch.Tensor], Any]
    left: float  # how often it may still stop


class Stopper:
    """The breakpoints of one tap."""

    def __init__(self, of: str, pick: Callable[[Any], Any], read: Callable[..., Reading], steps: Steps) -> None:
        self.of, self._pick, self._read, self._steps = of, pick, read, steps
        self._breakpoints: list[_Breakpoint] = []
        self._broken: set[str] = set()  # modules where the condition itself failed
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
            module.register_forward_hook(after, always_call=True),  # also where a hook or the forward raises
        ]

    def at_gradient(self, name: str, module: nn.Module, gradient: torch.Tensor, moment: Moment) -> None:
        """Stop at the line that called backward, if a condition holds for this gradient."""
        banner = self._banner(name, module, lambda: gradient, lambda: moment)
        if banner:
            stop_in_callers_frame(banner)

    def stop(self) -> None:
        """Trace nothing any more."""
        for trace in reversed(self._traces):
            trace.stop()
        self._traces = []

    def _before(self, name: str, module: nn.Module, given: Any) -> None:
        if is_no_real_pass() or is_recomputing():
            return
        self._traces = [trace for trace in self._traces if trace.active]
        if self.of == "output":
            trace = ForwardTrace(module, on_return=lambda value: self._output_banner(name, module, value, last=False))
        else:
            banner = self._banner(name, module, lambda: self._pick(given), lambda: self._steps.last(name))
            if not banner:
                return
            trace = ForwardTrace(module, on_call=banner)
        self._traces.append(trace)
        trace.start()

    def _after(self, name: str, module: nn.Module, output: Any) -> None:
        """End a trace that never met its forward, as when that is not written in Python, and stop where we can."""
        if is_no_real_pass():
            return
        trace = next((t for t in reversed(self._traces) if t.module is module and t.active), None)
        if trace is None:
            return
        trace.stop()
        banner = trace.on_call or self._output_banner(name, module, output, last=True)
        if banner and output is not None:
            stop_in_callers_frame(banner)

    def _output_banner(self, name: str, module: nn.Module, output: Any, *, last: bool) -> str:
        """Ask about an output: before the hooks of the module have counted the call, or after; None is no value."""
        if output is None:  # this is also what a forward that raises returns
            return ""
        when = self._steps.last if last else self._steps.ahead
        return self._banner(name, module, lambda: self._pick(output), lambda: when(name))

    def _banner(self, name: str, module: nn.Module, picked: Callable[[], Any], moment: Callable[[], Moment]) -> str:
        """Say why to stop, or nothing."""
        if name in self._broken:
            return ""
        try:
            value = picked()
            if not isinstance(value, torch.Tensor):
                return ""
            value = value.detach()
            with torch.no_grad():
                hit = next((b for b in self._breakpoints if b.left > 0 and bool(b.condition(value))), None)
                if hit is None:
                    return ""
                hit.left -= 1
                return str(self._read(name, module, value, moment()))
        except Exception as error:
            self._broken.add(name)
            warnings.warn(
                f"the tap on {name} no longer stops, because its condition raised: {type(error).__name__}: {error}",
                stacklevel=2,
            )
            return ""
