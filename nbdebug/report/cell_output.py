"""Outputs of the notebook cell that is running: which cell it is, and an output that can be replaced and removed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from nbdebug.core.shell import running_shell

__all__ = ["CellOutput", "current_execution", "in_notebook", "on_cell_end"]


class CellOutput:
    """One output of the running cell: shown at the first call of `show`, then replaced in place."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, forms: Mapping[str, str]) -> None:
        """Show these forms, by MIME type, in place of those that were shown before."""
        from IPython.display import display

        if self._handle is None:
            self._handle = display(dict(forms), raw=True, display_id=True)
        else:
            self._handle.update(dict(forms), raw=True)

    def remove(self) -> None:
        """Leave nothing to be seen: no message takes one output away, but an empty one has no height.

        It keeps its forms, because nbconvert warns of an output that has none.
        """
        if self._handle is not None:
            self._handle.update({"text/html": "", "text/plain": ""}, raw=True)
            self._handle = None


def in_notebook() -> bool:
    """Return whether this process is a Jupyter kernel, where outputs can be more than text.

    A process that was forked from a kernel is none: what it sends does not arrive.
    """
    kernel = _kernel()
    return kernel is not None and getattr(getattr(kernel, "session", None), "pid", os.getpid()) == os.getpid()


def current_execution() -> str:
    """Return the id of the request that runs the current cell, another each time a cell is run; empty elsewhere."""
    try:
        return str(_kernel().get_parent("shell")["header"]["msg_id"])
    except (AttributeError, LookupError, TypeError):
        return ""


def on_cell_end(function: Callable[[Any], Any]) -> Callable[[], None]:
    """Call the function whenever a cell has ended, while outputs still go to it; what is returned ends that."""
    shell = running_shell()
    if shell is None:
        return lambda: None
    shell.events.register("post_run_cell", function)

    def end() -> None:
        with suppress(ValueError):  # it is unregistered already
            shell.events.unregister("post_run_cell", function)

    return end


def _kernel() -> Any:
    return getattr(running_shell(), "kernel", None)
