"""Lines: curves over a common x, thinned to two points a column, the lowest and the highest."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from nbdebug.charts import Lines
from nbdebug.charts.drawing.scale import Scale, heading, scale_over, tick_label, vertical_grid
from nbdebug.charts.drawing.sheet import COLORS, INK, VERMILION, WIDTH, Sheet, Stroke, Words, clipped, width_of

__all__ = ["lines", "thinned"]

HEIGHT, LEFT, MOST, MOST_POINTS, SHORT = 190.0, 48.0, 10, 840, 250
TICK, GAP = 10.5, 6.0  # the size of the labels at the left, and how far they stand from the plot
DASHES = (None, (6.0, 3.0), (2.0, 2.5), (9.0, 2.5))


def lines(exhibit: Lines) -> Sheet:
    """Draw curves; where a value is not finite, a cross at the foot says so."""
    curves = list(_curves(exhibit))
    sheet = Sheet()
    gaps = any(not np.isfinite(y).all() for _, _, y in curves)
    top = _legend(sheet, heading(sheet, exhibit.title), exhibit, gaps)
    sheet.add(Words(0, top + 10, clipped(exhibit.y_label, 60), 10.5))
    top += 24  # so that a label at the very top keeps off the name of the axis
    up = scale_over(_every(y for _, _, y in curves), top + HEIGHT, top, log=exhibit.log_y)
    left = max(LEFT, *(GAP + width_of(tick_label(tick), TICK) for tick in up.ticks()), 0.0)
    across = scale_over(_every(x for _, x, _ in curves), left, WIDTH - 10, log=exhibit.log_x, pad=0.0)
    vertical_grid(sheet, across, top, top + HEIGHT)
    _horizontal_grid(sheet, up, left)
    for index, (_, x, y) in enumerate(curves):
        _curve(sheet, exhibit, (across, up), x, y, index)
    sheet.height = top + HEIGHT + 34
    sheet.add(Words((left + WIDTH) / 2, sheet.height - 4, clipped(exhibit.x_label, 60), 10.5, "middle"))
    return sheet


def _curves(exhibit: Lines) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    for name, xs, ys in exhibit.series[:MOST]:
        x, y = np.asarray(xs, dtype=float), np.asarray(ys, dtype=float)
        shared = min(len(x), len(y))
        yield str(name), x[:shared], y[:shared]


def _every(arrays: Iterator[np.ndarray]) -> list[float]:
    """Return what a scale has to hold: the ends and all that may decide them, without walking a million points."""
    return [float(v) for a in arrays for v in (*a[np.isfinite(a)][:1], *_bounds(a))]


def _bounds(values: np.ndarray) -> Iterator[float]:
    finite = values[np.isfinite(values)]
    positive = finite[finite > 0]
    for part in (finite, positive):
        if len(part):
            yield from (float(part.min()), float(part.max()))


def _legend(sheet: Sheet, y: float, exhibit: Lines, gaps: bool) -> float:
    """Name the curves by color and dash, two in a row, and give where the plot may begin."""
    named = [(clipped(name, 30), i) for i, (name, _, _) in enumerate(exhibit.series[:MOST])]
    if len(exhibit.series) == 1:  # the axis has its name already
        named = [(name, i) for name, i in named if name and name != exhibit.y_label]
    for place, (name, index) in enumerate(named):
        x, line = (WIDTH / 2) * (place % 2), y + 17 * (place // 2) + 8
        sheet.add(_pen(exhibit, index, ((x, line), (x + 22, line))), Words(x + 28, line + 4, name, 11))
    y += 17 * math.ceil(len(named) / 2)
    if gaps:
        sheet.add(*_cross(11, y + 8), Words(28, y + 12, "non-finite (NaN or Inf)", 11))
        y += 17
    if len(exhibit.series) > MOST:
        sheet.add(Words(0, y + 12, f"… and {len(exhibit.series) - MOST} more curves", 11))
        y += 17
    return y + 4


def _pen(exhibit: Lines, index: int, points: tuple[tuple[float, float], ...]) -> Stroke:
    """Tell curves apart by color, and by dashes where they are short; in the noise of long ones dashes get lost."""
    short = max(len(ys) for _, _, ys in exhibit.series) <= SHORT
    dash = DASHES[(index + index // len(COLORS)) % len(DASHES)] if short else None
    return Stroke(points, COLORS[index % len(COLORS)], 1.8 if short else 1.4, dash)


def _cross(x: float, y: float) -> tuple[Stroke, Stroke]:
    return (
        Stroke(((x - 3.5, y - 3.5), (x + 3.5, y + 3.5)), VERMILION, 1.6),
        Stroke(((x - 3.5, y + 3.5), (x + 3.5, y - 3.5)), VERMILION, 1.6),
    )


def _horizontal_grid(sheet: Sheet, up: Scale, left: float) -> None:
    for tick in up.ticks():
        y = up(tick)
        sheet.add(
            Stroke(((left, y), (WIDTH - 10, y)), INK, 0.6, opacity=0.22),
            Words(left - GAP, y + 4, tick_label(tick), TICK, "end"),
        )


def _curve(sheet: Sheet, exhibit: Lines, scales: tuple[Scale, Scale], x: np.ndarray, y: np.ndarray, index: int) -> None:
    across, up = scales
    missing = across.places(x[~np.isfinite(y)])
    x, y = thinned(x, np.where(np.isfinite(y), y, np.nan))
    sheet.add(_pen(exhibit, index, tuple(zip(across.places(x).tolist(), up.places(y).tolist(), strict=True))))
    places = np.unique(np.ceil((missing[np.isfinite(missing)] - across.start) / 9)) * 9 + across.start
    for place in places[places <= across.stop + 1].tolist():
        sheet.add(*_cross(place, up.start - 5))


def thinned(x: np.ndarray, y: np.ndarray, most: int = MOST_POINTS) -> tuple[np.ndarray, np.ndarray]:
    """Keep at most so many points: of each stretch the lowest and the highest, so that no spike is lost."""
    if len(x) <= most:
        return x, y
    size = -(-len(x) // (most // 2 - 1))
    padded = np.full(-(-len(x) // size) * size, np.nan)
    padded[: len(x)] = y
    stretches, starts = padded.reshape(-1, size), np.arange(0, len(padded), size)
    lowest = np.where(np.isnan(stretches), np.inf, stretches).argmin(axis=1) + starts
    highest = np.where(np.isnan(stretches), -np.inf, stretches).argmax(axis=1) + starts
    chosen = np.unique(np.concatenate([[0, len(x) - 1], lowest, highest]))
    return x[chosen], y[chosen]
