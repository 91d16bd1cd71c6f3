"""How a running experiment is told to stop, how much time it may take, and how it tells how far it is."""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, TypeVar

from nbdebug.core.work_clock import WorkClock
from nbdebug.errors import Cancelled, OutOfTime

__all__ = ["CANCELLED", "EFFORTS", "OUT_OF_TIME", "Control", "Effort", "limit_for"]

CANCELLED, OUT_OF_TIME = "canceled by the user", "the time limit was reached"

Listener = Callable[[float, str], None]
Clock = Callable[[], float]
T = TypeVar("T")
Effort = Literal["quick", "normal", "thorough"]
EFFORTS: tuple[Effort, ...] = ("quick", "normal", "thorough")
INTERACTIVE = 60.0  # seconds that a person waits for an answer; it decides what is tried, and no verdict


def limit_for(effort: Effort, time_limit: float | None) -> float | None:
    """Return the seconds that a session may take: the user's own limit, else about a minute unless it is thorough."""
    if time_limit is not None:
        return time_limit
    return None if effort == "thorough" else INTERACTIVE


class Control:
    """The controller of one session: cancel, interrupt, budget and progress.

    Experiments call `poll()` once a module call and once a batch. It returns at once while all is well and
    raises when the user canceled, pressed Ctrl-C, or the time is over. Time decides what is tried and what is not;
    an experiment that does not fit raises `OutOfTime` and is reported as not tried.
    """

    def __init__(
        self,
        *,
        time_limit: float | None = None,
        on_progress: Listener | None = None,
        quick: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self.quick = quick  # whether experiments have to make do with few batches
        self.clock = clock or WorkClock()  # without the time that other programs take from this one
        self.cancel = threading.Event()
        self.interrupted = threading.Event()
        self.insisted = threading.Event()  # a second Ctrl-C, before the first was obeyed
        self.on_progress = on_progress
        self.allowances = 0  # how often a budget was given; what did not fit into one may fit into the next
        self._deadlines: list[float] = []
        self._agreed: dict[str, int] = {}
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
        """Return a control for a session within this one: the same cancel and the same clock, with a listener of its
        own.
        """
        return copy.copy(self)

    def reset(self) -> None:
        """Forget a cancel or an interrupt that has been obeyed, so that the next run can begin."""
        for event in (self.interrupted, self.insisted, self.cancel):
            event.clear()

    def allow(self, seconds: float | None) -> None:
        """Let the budget of the whole session begin anew: so many seconds from now, or no limit."""
        self.budget = math.inf if seconds is None else float(seconds)
        self._end = self.clock() + self.budget
        self.allowances += 1
        self._agreed.clear()

    @contextmanager
    def share(self, part: float) -> Iterator[None]:
        """Allow the enclosed block a part of the session's budget; without a budget, whatever it takes."""
        with self._until(self.clock() + part * self.budget):
            yield

    @contextmanager
    def keeping(self, part: float) -> Iterator[None]:
        """Keep a part of the session's budget for what comes after the enclosed block."""
        with self._until(self._end - part * self.budget if self.has_budget else math.inf):
            yield

    @contextmanager
    def _until(self, deadline: float) -> Iterator[None]:
        self._deadlines.append(deadline)
        try:
            yield
        finally:
            self._deadlines.remove(deadline)

    @property
    def has_budget(self) -> bool:
        """Whether the session has a time limit at all."""
        return math.isfinite(self.budget)

    @property
    def seconds_left(self) -> float:
        """The seconds until the nearest deadline; infinite when there is none."""
        return min([self._end, *self._deadlines]) - self.clock()

    @property
    def session_left(self) -> float:
        """The seconds that are left of the budget of the whole session, and not only of one experiment."""
        return max(0.0, self._end - self.clock())

    @property
    def is_over(self) -> bool:
        """Whether the time limit of the whole session has passed, not only that of one experiment."""
        return self.clock() > self._end

    def affordable(self, each: float, most: int, *, part: float = 1.0) -> int:
        """Return how many steps of `each` seconds fit into a part of the time that is left, and at most `most`."""
        left = part * max(self.seconds_left, 0.0)
        return most if left >= most * each else int(left / each)

    def as_many(self, items: Sequence[T], *, part: float = 0.8, fewest: int = 1, agreed: str = "") -> Iterator[T]:
        """Yield as many items as fit into a part of the time that is left, decided once, by the time of the first two.

        Fewer than `fewest` are not begun: `OutOfTime` is raised. Where a name is `agreed`, everything under this name
        gets equally many, so that copies can be compared. Without a time limit, all items are yielded.
        """
        most, begun, each = self._agreed.get(agreed, len(items)), self.clock(), math.inf
        for number, item in enumerate(items):
            if number in (1, 2) and self.has_budget and agreed not in self._agreed:
                each, begun = min(each, self.clock() - begun), self.clock()
            if number == 2 and agreed not in self._agreed:
                most = number + self.affordable(each, len(items) - number, part=part)
                if most < min(fewest, len(items)):
                    raise OutOfTime(f"{fewest} steps do not fit")
                if agreed:
                    self._agreed[agreed] = most
            if number >= most:
                return
            yield item

    def progress(self, fraction: float, text: str = "") -> None:
        """Tell the listener how much of the running experiment is done, and poll."""
        self.poll()
        if self.on_progress is not None:
            self.on_progress(min(max(fraction, 0.0), 1.0), text)
