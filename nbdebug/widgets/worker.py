"""Do what a button asks: in a worker thread, with Cancel, and never beside a running cell.

An experiment seeds and restores the global random generators, so it must not run while a cell of the user's trains. A
click that arrives during a cell waits for its end; a cell that begins during an experiment makes the experiment stop at
once, put everything back, and start again after the cell.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from nbdebug.core.control import Control
from nbdebug.core.shell import running_shell
from nbdebug.errors import Cancelled, NbdebugError

__all__ = ["Worker"]

Tell = Callable[[str, str], None]
Job = TypeVar("Job", bound=Hashable)
WORKER = "nbdebug-worker"


class Worker(Generic[Job]):
    """One queue of jobs, each done by `do`; `tell(state, text)` is called with idle, waiting, running or failed."""

    def __init__(self, do: Callable[[Job], object], control: Control, tell: Tell) -> None:
        self._do, self._control, self._tell = do, control, tell
        self._queue: list[Job] = []
        self._thread: threading.Thread | None = None
        self._lock = threading.RLock()
        self._cell_ended = threading.Event()
        self._cell_ended.set()
        self._at_rest = threading.Event()  # no job is being done, so that nothing of the process is in use
        self._at_rest.set()
        self._cells = 0  # that are running now: more than one where the kernel has subshells
        self._yielding = False
        self._shell = running_shell()
        if self._shell is not None:
            if _in_cell(self._shell):  # it is being made by a cell, which has not ended
                self._cells = 1
                self._cell_ended.clear()
            for event, function in self._hooks():
                self._shell.events.register(event, function)

    @property
    def is_busy(self) -> bool:
        """Whether anything runs or waits."""
        with self._lock:
            return self._thread is not None

    def start(self, jobs: Iterable[Job]) -> None:
        """Put jobs into the queue and let a thread do them; returns at once."""
        with self._lock:
            self._queue.extend(job for job in jobs if job not in self._queue)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=WORKER, daemon=True)
                self._thread.start()

    def cancel(self) -> None:
        """Stop what runs and forget what waits."""
        with self._lock:
            self._queue.clear()
            if self._thread is not None:
                self._control.cancel.set()

    def join(self, timeout: float | None = None) -> None:
        """Wait until nothing runs any more."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout)

    def close(self) -> None:
        """Stop, and take the hooks off the shell."""
        self.cancel()
        if self._shell is not None:
            for event, function in self._hooks():
                try:
                    self._shell.events.unregister(event, function)
                except ValueError:  # the shell was reset in between
                    continue
            self._shell = None
        self._cell_ended.set()

    def _work(self) -> None:
        failed = ""
        try:
            while (job := self._next()) is not None:
                self._take_turn()
                self._tell("running", str(job))
                self._do_one(job)
        except NbdebugError as error:
            failed = str(error)
        except BaseException:
            failed = traceback.format_exc()
        finally:
            with self._lock:
                self._queue.clear()
                self._thread = None
                self._at_rest.set()
            self._control.reset()
        self._tell("failed" if failed else "idle", failed)

    def _next(self) -> Job | None:
        with self._lock:
            return self._queue[0] if self._queue else None

    def _take_turn(self) -> None:
        """Wait until no cell runs, and begin in the same moment, so that a cell that begins knows of it."""
        while True:
            with self._lock:
                if self._cell_ended.is_set():
                    self._at_rest.clear()
                    return
            self._tell("waiting", "waits for the running cell")
            self._cell_ended.wait()

    def _do_one(self, job: Job) -> None:
        """Do one job; when a cell made it give way, it stays at the head of the queue."""
        with suppress(Cancelled):
            self._do(job)
        self._control.reset()  # a job that ended before it heard of a cancel must not leave it to the next one
        with self._lock:
            gave_way, self._yielding = self._yielding, False
            if self._queue and self._queue[0] == job and not gave_way:
                self._queue.pop(0)
        if gave_way:
            self._undone(job)
        self._at_rest.set()

    def _undone(self, job: Job) -> None:
        """Forget what a job left behind that gave way in the middle; it is done again after the cell."""

    def _hooks(self) -> tuple[tuple[str, Callable[..., None]], ...]:
        """Name the shell's events around a cell; "pre_execute" and "post_execute" come around every click as well."""
        return ("pre_run_cell", self._cell_begins), ("post_run_cell", self._cell_ends)

    def _cell_begins(self, *_: Any) -> None:
        with self._lock:
            self._cells += 1
            self._cell_ended.clear()
            busy = not self._at_rest.is_set() and threading.current_thread() is not self._thread
            if busy:
                self._yielding = bool(self._queue)  # what was cancelled is not done again
                self._control.cancel.set()
        if busy:
            self._at_rest.wait()  # until everything is restored

    def _cell_ends(self, *_: Any) -> None:
        with self._lock:
            self._cells = max(0, self._cells - 1)
            if not self._cells:
                self._cell_ended.set()


def _in_cell(shell: Any) -> bool:
    """Whether a cell is running on this thread, and not the answer to a click or a silent request of the front end."""
    if threading.current_thread().name == WORKER:  # which has its turn only while no cell runs
        return False
    kernel = getattr(shell, "kernel", None)
    try:
        parent = kernel.get_parent("shell") if kernel is not None else {}
        kind, silent = parent["header"]["msg_type"], parent["content"].get("silent", False)
    except (LookupError, TypeError, AttributeError):
        return True
    return bool(kind == "execute_request" and not silent)
