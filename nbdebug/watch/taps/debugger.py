"""Stop in the frame of a module's own forward, and open the debugger of the notebook there.

When a hook sees an output, the frame that computed it is gone. So the call is traced: at the moment when the forward
is about to return, its frame is still there with all its variables, and the debugger opens in it.
"""

from __future__ import annotations

import bdb
import inspect
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from torch import nn

from nbdebug.experiments.source_lines import users_frame
from nbdebug.watch.taps.prompting import can_ask, cannot_ask, debugger_that_lets_go

__all__ = ["ForwardTrace", "stop_in_callers_frame"]

Trace = Callable[[FrameType, str, Any], Any]


class ForwardTrace:
    """Follows one call of one module's forward; only its beginning and its end are looked at.

    `on_call` says what was seen before the call, and `on_return` is asked about the value returned; where they say
    anything, it is shown above the debugger that opens then.
    """

    def __init__(self, module: nn.Module, *, on_call: str = "", on_return: Callable[[Any], str] | None = None) -> None:
        self.module, self.on_call, self.on_return = module, on_call, on_return
        self.code = _forward_code(module)
        self.active = False
        self._previous: Any = None

    def start(self) -> None:
        """Wait for the forward to begin."""
        self._previous, self.active = sys.gettrace(), True
        sys.settrace(self._global)

    def stop(self) -> None:
        """Trace no more, and let go on whoever traced before; a debugger that took over since then is left alone."""
        if self.active:
            self.active = False
            if sys.gettrace() == self._global:
                sys.settrace(self.before)

    @property
    def before(self) -> Any:
        """Whoever traced before, and still wants to."""
        earlier = getattr(self._previous, "__self__", None)
        return earlier.before if isinstance(earlier, ForwardTrace) and not earlier.active else self._previous

    def _global(self, frame: FrameType, event: str, value: Any) -> Trace | None:
        if event != "call" or frame.f_code is not self.code or not self._is_ours(frame):
            return None
        if self.on_return is not None:
            frame.f_trace_lines = False
            return self._local
        self.stop()
        debugger = _about_to_stop(frame, self.on_call)
        return None if debugger is None else debugger.trace_dispatch

    def _local(self, frame: FrameType, event: str, value: Any) -> Trace | None:
        if event != "return":
            return self._local
        self.stop()
        seen = self.on_return(value) if self.on_return is not None else ""
        if seen:
            debugger = _about_to_stop(frame, seen)
            if debugger is not None:
                debugger.dispatch_return(frame, value)
        return None

    def _is_ours(self, frame: FrameType) -> bool:
        """Whether this is the forward of this module, and not of another one of its class."""
        first = frame.f_locals.get(frame.f_code.co_varnames[0]) if frame.f_code.co_argcount else None
        return first is self.module or not isinstance(first, nn.Module)


def stop_in_callers_frame(seen: str) -> None:
    """Open the debugger at the user's line that is running, such as the one that called backward."""
    frame = users_frame()
    if frame is None or not _is_open(seen):
        return
    debugger = debugger_that_lets_go(frame, seen, _tracer_to_restore())
    debugger.reset()
    debugger.interaction(frame, None)
    debugger.give_back()  # whatever was typed: the hook that called this is no place to step from
    if debugger.quitting:
        raise bdb.BdbQuit


def _about_to_stop(frame: FrameType, seen: str) -> Any:
    """Return a debugger that stops at the next event of a frame, or None where nobody can be asked."""
    if not _is_open(seen):
        return None
    debugger = debugger_that_lets_go(frame, seen, _tracer_to_restore())
    debugger.set_trace(frame)
    return debugger


def _is_open(seen: str) -> bool:
    """Say why the run stops here, or why it cannot."""
    if can_ask():
        sys.stdout.write(f"nbdebug stopped at the {seen}. c continues, q quits the run with BdbQuit.\n")
        return True
    sys.stdout.write(cannot_ask(seen))
    return False


def _tracer_to_restore() -> Callable[[], Any]:
    """Remember who traces now; by the time they are asked for, a trace of ours may be over."""
    now = sys.gettrace()
    owner = getattr(now, "__self__", None)
    return lambda: owner.before if isinstance(owner, ForwardTrace) and not owner.active else now


def _forward_code(module: nn.Module) -> CodeType | None:
    """Return the code of the forward itself, inside decorators such as `torch.no_grad()`."""
    function = inspect.unwrap(module.forward)
    return getattr(getattr(function, "__func__", function), "__code__", None)
