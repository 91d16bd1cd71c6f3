"""The loss of the short training that runs now, as far as its progress tells it."""

from __future__ import annotations

import re

from nbdebug.charts import Lines
from nbdebug.core.journal import Event

__all__ = ["LiveLoss"]

LOSS = re.compile(r"^(?P<what>.*?)[ ,·]+loss (?P<value>[-+\d.e]+|nan|-?inf)$")
FEWEST = 2  # points of a curve


class LiveLoss:
    """Hears the progress of one training after another, and keeps the curve of the one that runs."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget the curve, because another experiment begins."""
        self._what, self._losses, self._shown = "", [], 0  # type: tuple[str, list[float], int]

    def hear(self, event: Event) -> None:
        """Keep the loss that an event tells, if it does."""
        told = LOSS.match(event.text)
        if told is None:
            return
        if told["what"] != self._what:
            self.clear()
            self._what = told["what"]
        self._losses.append(float(told["value"]))

    def curve(self, chance: float | None = None) -> Lines | None:
        """Return the curve so far, beside the loss at chance level where that is known; None without anything new."""
        if len(self._losses) < FEWEST or len(self._losses) == self._shown:
            return None
        self._shown = len(self._losses)
        curves = [(self._what, self._losses)]
        if chance is not None:
            curves.append((f"chance level {chance:.3g}", [chance] * self._shown))
        return Lines.of_losses(curves, f"Loss of {self._what}")
