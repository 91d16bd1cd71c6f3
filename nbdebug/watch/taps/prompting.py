"""The debugger that is opened: it prompts only if stdin is available, and releases everything on `c`."""

from __future__ import annotations

import pdb
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["can_ask", "cannot_ask", "debugger_that_lets_go"]


def can_ask() -> bool:
    """Whether a prompt can be answered: not in a kernel that allows no input, nor without any input at all."""
    kernel = getattr(_shell(), "kernel", None)
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
    shell = _shell()
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
            """Let everybody trace who traced before."""
            if not frames:
                return
            for held, trace, lines in frames:
                held.f_trace, held.f_trace_lines = trace, lines
            frames.clear()
            sys.settrace(tracer())

    return LettingGo(nosigint=True) if shell is None else LettingGo()


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None
