"""Stop in the frame of a module's own forward, and open the debugger of the notebook there.

When a hook sees an output, the frame that computed it is gone. So the call is traced: at the moment when the forward
is about to return, its frame is still there with all its variables, and the debugger opens in it.
"""

from __future__ import annotations

import bdb
import inspect
import pdb
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from torch import nn

from nbdebug.core.shell import running_shell
from nbdebug.experiments.source_lines import users_frame

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
    """Return a debugger that stops at the next event of a frame, or None where there is no prompt."""
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


def can_ask() -> bool:
    """Whether a prompt can be answered: not in a kernel that allows no input, nor without any input at all."""
    kernel = getattr(running_shell(), "kernel", None)
    if kernel is not None:
        return bool(getattr(kernel, "_allow_stdin", True))
    return sys.stdin is not None and not sys.stdin.closed


def cannot_ask(seen: str) -> str:
    """Print one line if stdin is not available."""
    return f"nbdebug would stop at the {seen}, but stdin is not available here; the run continues.\n"


def debugger_that_lets_go(frame: FrameType, seen: str, tracer: Callable[[], Any]) -> Any:
    """Return the debugger of the notebook or terminal that runs this, or the plain one.

    A debugger takes the place of every tracer that was there, in each frame, and leaves none behind on `c`. This one
    gives them back: traces of modules further out, and those of the user. At the end of the input it goes on.
    """
    shell = running_shell()
    kind: Any = pdb.Pdb if shell is None else shell.debugger_cls
    frames: list[tuple[FrameType, Any, bool]] = []
    around: FrameType | None = frame
    while around is not None:
        frames.append((around, around.f_trace, around.f_trace_lines))
        around.f_trace_lines = True
        around = around.f_back

    class LettingGo(kind):
        """The debugger, with what it has to give back."""

        def set_continue(self) -> None:
            super().set_continue()
            if not self.breaks:  # with breakpoints of the user's it has to go on tracing
                self.give_back()

        def set_quit(self) -> None:
            super().set_quit()
            self.give_back()

        def trace_dispatch(self, frame: FrameType, event: str, arg: Any) -> Any:
            local = super().trace_dispatch(frame, event, arg)
            return local if frames else frame.f_trace

        def interaction(self, *args: Any, **kwargs: Any) -> None:
            try:
                super().interaction(*args, **kwargs)
            except (EOFError, OSError, NotImplementedError):  # the input cannot be read, whatever it seemed
                self.do_EOF("")

        def do_EOF(self, arg: str) -> int:
            """Continue at the end of the input."""
            sys.stdout.write(f"\n{cannot_ask(seen)}")
            self.set_continue()
            return 1

        def give_back(self) -> None:
            """Restore the trace functions of before."""
            if not frames:
                return
            for held, trace, lines in frames:
                held.f_trace, held.f_trace_lines = trace, lines
            frames.clear()
            sys.settrace(tracer())

    return LettingGo(nosigint=True) if shell is None else LettingGo()
