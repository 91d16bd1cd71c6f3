"""The journal keeps results in order and tells whoever watches; nothing below it knows about widgets."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nbdebug.core.finding import Finding, Result

__all__ = ["Event", "Journal", "Stopped"]

Stopped = Literal["", "interrupted", "cancelled", "out of time"]  # what ended a run before its end; empty: nothing did


@dataclass(frozen=True)
class Event:
    """Something that happened: `kind` is check-started, probe-started, probe-finished, progress, result or answer."""

    kind: str
    name: str
    fraction: float = 0.0
    text: str = ""
    result: Result | None = None


class Journal:
    """Results in the order they came in, the newest one for each check, and the people who listen."""

    def __init__(self) -> None:
        self._results: dict[str, Result] = {}
        self._listeners: list[Callable[[Event], Any]] = []
        self._lock = threading.RLock()
        self._notes: list[str] = []
        self.stopped: Stopped = ""
        self._stop_note = ""
        self.symptom = ""
        self._answers: dict[str, Any] = {}

    @property
    def results(self) -> list[Result]:
        """One result for each check that was asked, in the order of asking."""
        with self._lock:
            return list(self._results.values())

    @property
    def findings(self) -> list[Finding]:
        """All findings of all results, unranked."""
        return [finding for result in self.results for finding in result.findings]

    @property
    def answers(self) -> dict[str, Any]:
        """What the user said, by question."""
        with self._lock:
            return dict(self._answers)

    def answer(self, question: str, value: Any) -> None:
        """Keep an answer of the user's, in place of an older one, and tell everybody; None takes it back."""
        with self._lock:
            self._answers.pop(question, None)
            if value is not None:
                self._answers[question] = value
        self.tell(Event("answer", question, text="" if value is None else str(value)))

    def note(self, text: str) -> None:
        """Keep one sentence that the report has to say, once."""
        with self._lock:
            if text not in self._notes:
                self._notes.append(text)

    @property
    def notes(self) -> list[str]:
        """The sentences that the report has to say; that the run was stopped comes last."""
        with self._lock:
            return [*self._notes, self._stop_note] if self._stop_note else list(self._notes)

    def stop(self, kind: Stopped, reason: str) -> None:
        """Keep that the run was stopped, and why; the next run takes it back with `resume`."""
        with self._lock:
            self.stopped = kind
            self._stop_note = f"The run was stopped: {reason}." if kind != "out of time" else ""

    def resume(self) -> None:
        """Forget that an earlier run was stopped, which says nothing about the next one."""
        with self._lock:
            self.stopped, self._stop_note = "", ""

    def write(self, result: Result) -> None:
        """Keep a result, in place of an older one of the same check, and tell everybody."""
        with self._lock:
            self._results[result.check] = result
        self.tell(Event("result", result.check, 1.0, result=result))

    def arrange(self, order: Sequence[str]) -> None:
        """Put the results into this order, whatever the order of asking was; others come behind."""
        with self._lock:
            known = [check for check in order if check in self._results]
            self._results = {check: self._results[check] for check in dict.fromkeys((*known, *self._results))}

    def forget(self, checks: set[str] | None = None) -> None:
        """Drop the results of these checks, or of all."""
        with self._lock:
            for check in list(self._results) if checks is None else checks:
                self._results.pop(check, None)

    def subscribe(self, listener: Callable[[Event], Any]) -> Callable[[], None]:
        """Call the listener with every event from now on; the returned function ends that."""
        with self._lock:
            self._listeners.append(listener)

        def unsubscribe() -> None:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return unsubscribe

    def tell(self, event: Event) -> None:
        """Pass an event on; a listener that fails is removed with a warning."""
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            try:
                listener(event)
            except Exception as error:
                with self._lock:
                    self._listeners.remove(listener)
                warnings.warn(f"a listener of the journal failed and was removed: {error!r}", stacklevel=2)
