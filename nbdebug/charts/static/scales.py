"""Limits and ticks of the axes: round values, few of them, whatever the numbers are."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from matplotlib.ticker import Locator, LogLocator, MaxNLocator

__all__ = ["Scale", "scale_over", "tick_label"]

LARGEST = 1e300  # beyond it differences overflow


@dataclass(frozen=True)
class Scale:
    """The limits of an axis."""

    low: float
    high: float
    log: bool = False

    @property
    def name(self) -> str:
        """The name by which matplotlib knows it."""
        return "log" if self.log else "linear"

    def holds(self, value: float) -> bool:
        """Return whether a value has a place on it."""
        return math.isfinite(value) and (value > 0 or not self.log)

    def clip(self, value: float) -> float:
        """Return the value, or the limit beyond which it lies."""
        return min(max(value, self.low), self.high)

    def ticks(self, most: int = 6) -> list[float]:
        """Return round values to mark."""
        locators: list[Locator] = [MaxNLocator(most, steps=(1, 2, 2.5, 5, 10))]
        if self.log:
            locators = [LogLocator(subs=(1.0,), numticks=most), LogLocator(subs=(1.0, 2.0, 5.0)), *locators]
        for locator in locators:
            marks = sorted({float(mark) for mark in locator.tick_values(self.low, self.high)})
            inside = [mark for mark in marks if self.low <= mark <= self.high and self.holds(mark)]
            if 2 <= len(inside) <= 2 * most:
                return inside
        return [self.low, self.high]


def scale_over(values: Iterable[float], *, log: bool = False, pad: float = 0.04) -> Scale:
    """Make a scale that holds all finite values with a little room; a logarithmic one needs a positive value."""
    finite = [min(max(value, -LARGEST), LARGEST) for value in values if math.isfinite(value)]
    positive = [max(value, 1 / LARGEST) for value in finite if value > 0]
    if log and positive:
        room = max((max(positive) / min(positive)) ** pad, 1.05)
        return Scale(min(positive) / room, max(positive) * room, log=True)
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    flat = high - low <= 1e-12 * max(abs(low), abs(high))
    room = (0.1 * abs(low) or 0.5) if flat else pad * (high - low)
    return Scale(low - room, high + room)


def tick_label(value: float) -> str:
    """Write a round value shortly."""
    if value == round(value) and 1000 <= abs(value) < 1e6:
        return f"{value:,.0f}"
    return f"{value:.6g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
