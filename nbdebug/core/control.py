"""How a running experiment is told to stop, and how it tells how far it is."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nbdebug.errors import Cancelled, OutOfTime

__all__ = ["CANCELLED", "OUT_OF_TIME", "Control"]

CANCELLED, OUT_OF_TIME = "canceled by the user", "the time limit was reached"

Listener = Callable[[float, str], None]


class Control:
    """The controller of one session: cancel, interrupt, time limit and progress.

    Experiments call `poll()` once a module call and once a batch. It returns at once while all is well and
    raises when the user canceled, pressed Ctrl-C, or the time is over.
    """

    def __init__(
        self, *, time_limit: float | None = None, on_progress: Listener | None = None, quick: bool = False
    ) -> None:
        self.quick = quick  # whether experiments have to make do with few batches
        self.cancel = threading.Event()
        self.interrupted = threading.Event()
        self.insisted = threading.Event()  # a second Ctrl-C, before the first was obeyed
        self.on_progress = on_progress
        self._deadlines: list[float] = []
        self.allow(time_limit)

    def poll(self) -> None:
        """Raise if the experiment has to end now."""
        if self.interrupted.is_set():
            raise KeyboardInterrupt
        if self.cancel.is_set():
            raise Cancelled(CANCELLED)
        if self.seconds_left < 0:
            raise OutOfTime(OUT_OF_TIME)

    def shared(self) -> Control:
        """Return reins for a session within this one: the same cancel and the same clock, with a listener of its
        own.
        """
        return copy.copy(self)

    def reset(self) -> None:
        """Forget a cancel or an interrupt that has been obeyed, so that the next run can begin."""
        for event in (self.interrupted, self.insisted, self.cancel):
            event.clear()

    def allow(self, seconds: float | None) -> None:
        """Let the time limit of the whole session begin anew: so many seconds from now, or none at all."""
        self._end = time.monotonic() + seconds if seconds is not None else float("inf")

    @contextmanager
    def limit(self, seconds: float) -> Iterator[None]:
        """Allow the enclosed block at most this many seconds."""
        deadline = time.monotonic() + seconds
        self._deadlines.append(deadline)
        try:
            yield
        finally:
            self._deadlines.remove(deadline)

    @property
    def seconds_left(self) -> float:
        """The seconds until the nearest deadline; infinite when there is none."""
        return min([self._end, *self._deadlines]) - time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether the time limit of the whole session has passed, not only that of one experiment."""
        return time.monotonic() > self._end

    def progress(self, fraction: float, text: str = "") -> None:
        """Tell the listener how much of the running experiment is done, and poll."""
        self.poll()
        if self.on_progress is not None:
            self.on_progress(min(max(fraction, 0.0), 1.0), text)
