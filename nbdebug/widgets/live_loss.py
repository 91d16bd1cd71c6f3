"""The loss of the short training that runs now, as far as its progress tells it."""

from __future__ import annotations

import re
import time

from nbdebug.charts import Lines
from nbdebug.core.journal import Event
from nbdebug.views import page

__all__ = ["LiveLoss"]

SECONDS = 0.5  # between two pictures
LOSS = re.compile(r"^(?P<what>.*?)[ ,·]+loss (?P<value>[-+\d.e]+|nan|-?inf)$")
FEWEST = 2  # points of a curve


class LiveLoss:
    """Hears the progress of one training after another, and draws the curve of the one that runs."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget the curve, because another experiment begins."""
        self._what, self._losses, self._drawn = "", [], 0.0  # type: tuple[str, list[float], float]

    def hear(self, event: Event) -> None:
        """Keep the loss that an event tells, if it does."""
        told = LOSS.match(event.text)
        if told is None:
            return
        if told["what"] != self._what:
            self.clear()
            self._what = told["what"]
        self._losses.append(float(told["value"]))

    def picture(self) -> str:
        """Return the curve so far, if there is a newer one than was drawn last; else an empty text."""
        if len(self._losses) < FEWEST or time.monotonic() - self._drawn < SECONDS:
            return ""
        self._drawn = time.monotonic()
        lines = Lines.of_losses([(self._what, self._losses)], f"Loss of {self._what}, live")
        return page.drawn(lines, f"loss of {self._what}: {self._losses[-1]:.3g} now", 500)
