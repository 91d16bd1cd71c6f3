"""Tell what runs: the experiment, how far it is, how long it still takes, and the loss of a training as it falls."""

from __future__ import annotations

import math
import time

from nbdebug.core.journal import Event
from nbdebug.engine.session import Session
from nbdebug.evidence.initial_loss import InitialLoss
from nbdebug.widgets.layout import Face
from nbdebug.widgets.live_loss import LiveLoss
from nbdebug.widgets.pane import Pane

__all__ = ["Telling"]

MESSAGES_A_SECOND = 10  # progress is told at most so often


class Telling:
    """Passes the events of a journal on to the screen of the run."""

    def __init__(self, face: Face) -> None:
        self.face = face
        self.where = ""  # the stage and the step at work
        self._told = self._begun = 0.0
        self._done, self._total = 0, 1
        self._live = LiveLoss()

    def begin(self, total: int) -> None:
        """Count from here on, up to so many checks."""
        self._done, self._total, self.where = 0, max(total, 1), ""

    def clear(self, pane: Pane) -> None:
        """Forget the curve of a training that is over."""
        self._live.clear()

    def hear(self, event: Event, pane: Pane) -> None:
        """Pass an event on; progress at most a few times a second."""
        if event.kind == "result":
            self._done = min(self._done + 1, self._total)
        elif event.kind == "probe-started":
            self._begun = time.monotonic()
            self._say(0.0, event.text, pane.session)
        elif event.kind == "progress":
            self._live.hear(event)
            if time.monotonic() - self._told > 1 / MESSAGES_A_SECOND:
                self._told = time.monotonic()
                self._say(event.fraction, event.text, pane.session)
                self._draw(pane)

    def begin_check(self, check: str, session: Session) -> None:
        """Say which check is judged, until its experiment says more."""
        self._begun = time.monotonic()
        self._say(0.0, f"checking {check}", session)

    def _say(self, fraction: float, text: str, session: Session) -> None:
        """Say the step, the experiment, and how long it still takes: at most what the run may take."""
        seconds = time.monotonic() - self._begun
        known = fraction >= 0.1 and seconds >= 1
        most = session.control.session_left
        left = f"at most {max(most, 0):.0f} s left" if math.isfinite(most) and self._total > 1 else ""
        if not left and known:
            left = f"about {seconds * (1 - fraction) / fraction:.0f} s left for this experiment"
        of = f"{self._done} of {self._total} checks" if self._total > 1 else ""
        done = min((self._done + 0.99 * fraction) / self._total, 1.0)
        self.face.tell(done, " · ".join(part for part in (self.where, text, left, of) if part))

    def _draw(self, pane: Pane) -> None:
        """Show the loss of the training that runs, on the screen of the run."""
        if self.face.screen == "running" and (curve := self._live.curve(_chance(pane.session))) is not None:
            self.face.picture.grow(curve)


def _chance(session: Session) -> float | None:
    """Return the loss at chance level, where that is known by now."""
    known = session.known(InitialLoss)
    return known.guesses[0].guess if known is not None and len(known.guesses) == 1 else None
