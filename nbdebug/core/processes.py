"""End a process with all that it has started, in its group or in a session of its own."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress

import psutil

__all__ = ["end_with_parent", "kill_descendants", "kill_tree"]


def kill_descendants(pid: int) -> None:
    """Kill whatever a process that still lives has started."""
    with suppress(psutil.Error):
        for other in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.Error):
                other.kill()


def kill_tree(pid: int) -> None:
    """Kill a process that leads a group, its group and what it has started."""
    kill_descendants(pid)
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
    with suppress(psutil.Error):
        psutil.Process(pid).kill()


def end_with_parent() -> None:
    """End this process and all that it has started once its parent is gone, however that ended."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        kill_tree(os.getpid())

    threading.Thread(target=watch, daemon=True).start()
