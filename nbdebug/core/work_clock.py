"""A clock that stops while other programs hold the processor, so that a busy machine does not use up a budget."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

__all__ = ["WorkClock", "waited_for_processor"]

MOST_STRETCH = 4.0  # a minute of work ends after four minutes at the latest, however busy the machine is
REFRESH = 0.005  # seconds between two looks at the waiting time: a look costs as much as a small module


def waited_for_processor() -> float:
    """Return the seconds that this thread has been ready to run and had no processor; 0 where that is not counted."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as counters:
            return int(counters.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):  # not Linux, or a kernel without these counters
        return 0.0


class WorkClock:
    """Seconds like those of `time.monotonic`, without the time that the thread waited for a processor.

    At most as much is left out as lets `MOST_STRETCH` seconds pass for each of the clock's own. It never runs backward.
    """

    def __init__(
        self, now: Callable[[], float] = time.monotonic, waited: Callable[[], float] = waited_for_processor
    ) -> None:
        self._now, self._waited = now, waited
        self._lock, self._last = threading.Lock(), threading.local()
        self._seen, self._time, self._told = now(), 0.0, 0.0

    def __call__(self) -> float:
        """Return the seconds of work since the clock was made."""
        with self._lock:
            passed = self._now() - self._seen
            if passed >= REFRESH:
                self._time += max(passed - self._idle(), passed / MOST_STRETCH)
                self._seen, passed = self._seen + passed, 0.0
            self._told = max(self._told, self._time + passed)
            return self._told

    def _idle(self) -> float:
        """Return how long this thread has waited since it looked last."""
        total = self._waited()
        since = total - getattr(self._last, "total", total)
        self._last.total = total
        return max(since, 0.0)
