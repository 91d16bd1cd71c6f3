"""Run checks from a button: in a worker thread, with Cancel, and never beside a running cell.

A probe seeds and restores the global random generators, so it must not run while a cell of the user's trains. A click
that arrives during a cell waits for its end; a cell that begins during a probe makes the probe stop at once, put
everything back, and start again after the cell.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from typing import Any

from nbdebug.errors import NbdebugError
from nbdebug.session import Session

__all__ = ["Runner"]

Tell = Callable[[str, str], None]


class Runner:
    """One queue of checks for one session; `tell(state, text)` is called with idle, waiting, running or failed."""

    def __init__(self, session: Session, tell: Tell) -> None:
        self.session, self._tell = session, tell
        self._queue: list[str] = []
        self._thread: threading.Thread | None = None
        self._lock = threading.RLock()
        self._cell_ended = threading.Event()
        self._cell_ended.set()
        self._yielding = False
        self._shell = _shell()
        if self._shell is not None:
            self._cell_ended.clear()  # it is being made by a cell, which has not ended
            self._shell.events.register("pre_execute", self._cell_begins)
            self._shell.events.register("post_execute", self._cell_ends)

    @property
    def is_busy(self) -> bool:
        """Whether anything runs or waits."""
        with self._lock:
            return self._thread is not None

    def start(self, checks: list[str]) -> None:
        """Put checks into the queue and let a worker run them; returns at once."""
        with self._lock:
            self._queue.extend(check for check in checks if check not in self._queue)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="nbdebug-runner", daemon=True)
                self._thread.start()

    def cancel(self) -> None:
        """Stop what runs and forget what waits."""
        with self._lock:
            self._queue.clear()
            if self._thread is not None:
                self.session.control.cancel.set()

    def join(self, timeout: float | None = None) -> None:
        """Wait until nothing runs any more."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout)

    def close(self) -> None:
        """Stop, and take the hooks off the shell."""
        self.cancel()
        if self._shell is not None:
            for event, function in (("pre_execute", self._cell_begins), ("post_execute", self._cell_ends)):
                try:
                    self._shell.events.unregister(event, function)
                except ValueError:  # the shell was reset in between
                    continue
            self._shell = None
        self._cell_ended.set()

    def _work(self) -> None:
        failed = ""
        try:
            while (check := self._next()) is not None:
                if not self._cell_ended.is_set():
                    self._tell("waiting", "waits for the running cell")
                    self._cell_ended.wait()
                self._tell("running", check)
                self._run_one(check)
        except NbdebugError as error:
            failed = str(error)
        except BaseException:
            failed = traceback.format_exc()
        finally:
            with self._lock:
                self._queue.clear()
                self._thread = None
            self.session.control.reset()
        self._tell("failed" if failed else "idle", failed)

    def _next(self) -> str | None:
        with self._lock:
            return self._queue[0] if self._queue else None

    def _run_one(self, check: str) -> None:
        """Run one check; when a cell made it give way, it stays at the head of the queue."""
        self.session.run([check])
        with self._lock:
            gave_way, self._yielding = self._yielding, False
            if self._queue and self._queue[0] == check and not gave_way:
                self._queue.pop(0)
            elif gave_way:
                self.session.journal.forget({check})

    def _cell_begins(self, *_: Any) -> None:
        self._cell_ended.clear()
        with self._lock:
            busy = self._thread is not None and threading.current_thread() is not self._thread
            if busy and not self._yielding and self._queue:
                self._yielding = True
                self.session.control.cancel.set()
        while busy and self._yielding and self._thread is not None:  # until everything is put back
            self._thread.join(0.01)

    def _cell_ends(self, *_: Any) -> None:
        self._cell_ended.set()


def _shell() -> Any:
    """Give the IPython shell that runs cells, or None in a script."""
    import sys

    if "IPython" not in sys.modules:
        return None
    from IPython.core.getipython import get_ipython

    return get_ipython()
