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

from nbdebug.twin.sources import users_frame

__all__ = ["ForwardTrace", "stop_in_callers_frame"]

Trace = Callable[[FrameType, str, Any], Any]


class ForwardTrace:
    """Follows one call of one module's forward; only its beginning and its end are looked at.

    `on_call` and `on_return` are given nothing and the value returned; what they say, if they say anything, is shown
    above the debugger that opens then.
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
        """Trace no more, and let go on whoever traced before."""
        if self.active:
            self.active = False
            sys.settrace(self._previous)

    def _global(self, frame: FrameType, event: str, value: Any) -> Trace | None:
        if event != "call" or frame.f_code is not self.code or not self._is_ours(frame):
            return None
        if self.on_return is not None:
            frame.f_trace_lines = False
            return self._local
        self.stop()
        return _about_to_stop(frame, self.on_call).trace_dispatch  # type: ignore[no-any-return]

    def _local(self, frame: FrameType, event: str, value: Any) -> Trace | None:
        if event != "return":
            return self._local
        self.stop()
        banner = self.on_return(value) if self.on_return is not None else ""
        if banner:
            frame.f_trace_lines = True
            _about_to_stop(frame, banner).dispatch_return(frame, value)
        return None

    def _is_ours(self, frame: FrameType) -> bool:
        """Whether this is the forward of this module, and not of another one of its class."""
        first = frame.f_locals.get(frame.f_code.co_varnames[0]) if frame.f_code.co_argcount else None
        return first is self.module or not isinstance(first, nn.Module)


def stop_in_callers_frame(banner: str) -> None:
    """Open the debugger at the user's line that is running, such as the one that called backward."""
    frame = users_frame()
    if frame is None:
        return
    debugger = _debugger(banner)
    debugger.reset()
    debugger.interaction(frame, None)
    if debugger.quitting:
        raise bdb.BdbQuit


def _about_to_stop(frame: FrameType, banner: str) -> Any:
    debugger = _debugger(banner)
    debugger.set_trace(frame)
    return debugger


def _debugger(banner: str) -> Any:
    """Give the debugger of the notebook or terminal that runs this, or the plain one."""
    sys.stdout.write(f"{banner}\n")
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return pdb.Pdb(nosigint=True) if shell is None else shell.debugger_cls()


def _forward_code(module: nn.Module) -> CodeType | None:
    """Give the code of the forward itself, inside decorators such as `torch.no_grad()`."""
    function = inspect.unwrap(module.forward)
    return getattr(getattr(function, "__func__", function), "__code__", None)
