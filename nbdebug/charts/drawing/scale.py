"""From values to places on a sheet: scales, their ticks, and the frame of a plot."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from nbdebug.charts.drawing.sheet import INK, WIDTH, Anchor, Sheet, Stroke, Words
from nbdebug.core.text import clean_text

__all__ = ["Scale", "heading", "scale_over"]


@dataclass(frozen=True)
class Scale:
    """Where a value stands between two places of the sheet."""

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the place; what has none (not finite, or not positive on a logarithmic scale) gives NaN."""
        if not math.isfinite(value) or (self.log and value <= 0):
            return math.nan
        return float(self.places(np.array([value]))[0])

    def places(self, values: np.ndarray) -> np.ndarray:
        """Return the places of many values; those just outside stay within the margin of the plot."""
        with np.errstate(invalid="ignore", divide="ignore"):
            usable = np.isfinite(values) & (values > 0 if self.log else True)
            at = np.where(usable, values, np.nan)
            low, high = (math.log10(v) if self.log else v for v in (self.low, self.high))
            unit = max(abs(low), abs(high), 1e-300)  # so that no difference overflows
            share = ((np.log10(at) if self.log else at) / unit - low / unit) / (high / unit - low / unit)
        placed: np.ndarray = self.start + (self.stop - self.start) * np.clip(share, -0.02, 1.02)
        return placed

    def ticks(self, most: int = 6) -> list[float]:
        """Return round values to mark."""
        return _decades(self.low, self.high, most) if self.log else _round_steps(self.low, self.high, most)


def scale_over(values: Iterable[float], start: float, stop: float, *, log: bool = False, pad: float = 0.04) -> Scale:
    """Make a scale that holds all finite values with a little room; a logarithmic one needs a positive value."""
    finite = [min(max(value, -1e300), 1e300) for value in values if math.isfinite(value)]
    positive = [value for value in finite if value > 0]
    if log and positive:
        room = max((max(positive) / min(positive)) ** pad, 1.05)
        return Scale(min(positive) / room, max(positive) * room, start, stop, log=True)
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    flat = high - low <= 1e-12 * max(abs(low), abs(high))
    room = (0.1 * abs(low) or 0.5) if flat else pad * (high - low)
    return Scale(low - room, high + room, start, stop)


def _round_steps(low: float, high: float, most: int) -> list[float]:
    span = high - low
    if not 0 < span < math.inf:
        return [low, high]
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10, 20) if span / (power * factor) <= most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)] if last - first <= 2 * most else [low, high]


def _decades(low: float, high: float, most: int) -> list[float]:
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    if last - first < 1:
        between = [factor * 10.0**power for power in range(first - 1, last + 2) for factor in (1, 2, 5)]
        return [value for value in between if low <= value <= high] or [low, high]
    stride = math.ceil((last - first + 1) / most)
    return [10.0**power for power in range(first, last + 1, stride)]


def heading(sheet: Sheet, title: str) -> float:
    """Write the title, on as many lines as it needs, and give where the next thing may stand."""
    lines = textwrap.wrap(clean_text(title), 58, max_lines=3, placeholder=" …")
    for index, line in enumerate(lines):
        sheet.add(Words(0, 14 + 16 * index, line, 13, bold=True))
    return 16.0 * len(lines) + (10 if lines else 4)


def vertical_grid(sheet: Sheet, scale: Scale, top: float, bottom: float, labels: Sequence[str] | None = None) -> None:
    """Draw faint lines at the ticks of a horizontal scale, with their values below."""
    ticks = scale.ticks()
    for tick, label in zip(ticks, labels or [tick_label(tick) for tick in ticks], strict=True):
        x = scale(tick)
        anchor: Anchor = "middle" if 16 < x < WIDTH - 16 else ("start" if x <= 16 else "end")
        sheet.add(Stroke(((x, top), (x, bottom)), INK, 0.6, opacity=0.22), Words(x, bottom + 14, label, 10.5, anchor))


def tick_label(value: float) -> str:
    """Write a round value shortly."""
    if value == round(value) and 1000 <= abs(value) < 1e6:
        return f"{value:,.0f}"
    return f"{value:.6g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
