"""Tell what runs: the experiment, how far it is, how long it still takes, and the loss of a training as it falls."""

from __future__ import annotations

import time

from nbdebug.core.journal import Event
from nbdebug.widgets.layout import Face
from nbdebug.widgets.live_loss import LiveLoss
from nbdebug.widgets.pane import Pane

__all__ = ["Telling"]

MESSAGES_A_SECOND = 10  # progress is told at most so often


class Telling:
    """Passes the events of a journal on to the screen of the run."""

    def __init__(self, face: Face) -> None:
        self.face = face
        self._told = self._begun = 0.0
        self._live = LiveLoss()

    def clear(self, pane: Pane) -> None:
        """Forget the curve of a training that is over."""
        self._live.clear()
        pane.live = ""

    def hear(self, event: Event, pane: Pane) -> None:
        """Pass an event on; progress at most a few times a second."""
        if event.kind == "probe-started":
            self._begun = time.monotonic()
            self.face.tell(0.0, event.text)
        elif event.kind == "progress":
            self._live.hear(event)
            if time.monotonic() - self._told > 1 / MESSAGES_A_SECOND:
                self._told = time.monotonic()
                self.face.tell(event.fraction, event.text, self._told - self._begun)
                self._draw(pane)

    def _draw(self, pane: Pane) -> None:
        """Show the loss of the training that runs, on the screen of the run."""
        picture = self._live.picture()
        if picture:
            pane.live = picture
            if self.face.screen == "running":
                self.face.picture.value = picture
