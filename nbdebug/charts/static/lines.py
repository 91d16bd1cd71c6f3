"""Lines: curves over a common x, thinned to two points a column, the lowest and the highest."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from nbdebug.charts import Lines
from nbdebug.charts.static.scales import Scale, scale_over, tick_label
from nbdebug.charts.static.sheet import COLORS, VERMILION, WIDTH, Sheet, below_title, width_of
from nbdebug.charts.thinning import thinned
from nbdebug.core.text import clipped

__all__ = ["lines"]

HEIGHT, LEFT, MOST, MOST_POINTS, SHORT = 190.0, 48.0, 10, 840, 250
TICK, GAP = 10.5, 6.0  # the size of the labels at the left, and how far they stand from the plot
DASHES: tuple[Any, ...] = ("-", (0, (3.4, 1.7)), (0, (1.2, 1.4)), (0, (5, 1.4)))  # in widths of the line
MARKERS = ("", "s", "o", "^", "D", "v", "P", "X", "p", "*")
LETTERS = 56  # of a name in the legend; two names share a row where half is enough
CROSS: dict[str, Any] = {"color": VERMILION, "marker": "x", "ms": 7, "mew": 1.6, "ls": "none"}
Curve = tuple[str, np.ndarray, np.ndarray]


def lines(exhibit: Lines) -> Sheet:
    """Draw curves; where a value is not finite, a cross at the foot says so."""
    curves = list(_curves(exhibit))
    gaps = any(not np.isfinite(y).all() for _, _, y in curves)
    named, beside = _legend_of(exhibit)
    rows = math.ceil(len(named) / beside) + gaps + (len(exhibit.series) > MOST)
    legend = below_title(exhibit.title)
    top = legend + 17 * rows + 28  # so that a label at the very top keeps off the name of the axis
    sheet = Sheet(top + HEIGHT + 34, exhibit.title)
    _legend(sheet, legend, exhibit, named, beside, gaps)
    up = scale_over(_every(y for _, _, y in curves), log=exhibit.log_y)
    across = scale_over(_every(x for _, x, _ in curves), log=exhibit.log_x, pad=0.0)
    left = max(LEFT, *(GAP + 2 + width_of(tick_label(tick), TICK) for tick in up.ticks()))
    axes = sheet.plot(left, top, HEIGHT, across, up)
    sheet.ticks_below(axes, across, top + HEIGHT)
    sheet.ticks_beside(axes, up, left, GAP)
    for index, curve in enumerate(curves):
        _curve(sheet, axes, exhibit, curve, index, up)
    sheet.text(0, top - 14, clipped(exhibit.y_label, 60), TICK)
    sheet.text((left + WIDTH) / 2, sheet.height - 4, clipped(exhibit.x_label, 60), TICK, "middle")
    return sheet


def _curves(exhibit: Lines) -> Iterator[Curve]:
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


def _legend_of(exhibit: Lines) -> tuple[list[tuple[str, int]], int]:
    """Return the curves to name with their places, and how many stand in a row: two, or one where a name is long."""
    named = [(clipped(name, LETTERS), i) for i, (name, _, _) in enumerate(exhibit.series[: min(MOST, exhibit.firsts)])]
    if len(exhibit.series) == 1:  # the axis has its name already
        named = [(name, i) for name, i in named if name and name != exhibit.y_label]
    return named, 2 if all(len(name) <= LETTERS // 2 for name, _ in named) and len(named) > 1 else 1


def _legend(sheet: Sheet, y: float, exhibit: Lines, named: list[tuple[str, int]], across: int, gaps: bool) -> None:
    for place, (name, index) in enumerate(named):
        x, line = (WIDTH / across) * (place % across), y + 17 * (place // across) + 8
        sheet.line((x, x + 11, x + 22), (line, line, line), **_pen(exhibit, index), markevery=(1, 2))
        sheet.text(x + 28, line + 4, name, 11)
    y += 17 * math.ceil(len(named) / across)
    if gaps:
        sheet.line((11,), (y + 8,), **CROSS)
        sheet.text(28, y + 12, "non-finite (NaN or Inf)", 11)
        y += 17
    if len(exhibit.series) > MOST:
        sheet.text(0, y + 12, f"… and {len(exhibit.series) - MOST} more curves", 11)


def _pen(exhibit: Lines, index: int) -> dict[str, Any]:
    """Tell curves apart by color, and by dashes where they are short; long ones, in whose noise dashes get lost, by
    marks.
    """
    if index >= exhibit.firsts:
        again = _pen(exhibit, index - exhibit.repeats)
        return {"color": again["color"], "lw": 1.2, "ls": again.get("ls", "-"), "alpha": 0.45}
    color = COLORS[index % len(COLORS)]
    if max(len(ys) for _, _, ys in exhibit.series) <= SHORT:
        return {"color": color, "lw": 1.8, "ls": DASHES[(index + 2 * (index // len(COLORS))) % len(DASHES)]}
    return {"color": color, "lw": 1.4, "marker": MARKERS[index % len(MARKERS)], "ms": 5, "mew": 0}


def _curve(sheet: Sheet, axes: Axes, exhibit: Lines, curve: Curve, index: int, up: Scale) -> None:
    _, x, y = curve
    missing = x[~np.isfinite(y)]
    x, y = thinned(x, np.where(np.isfinite(y), np.clip(y, up.low, up.high), np.nan), MOST_POINTS)
    pen = _pen(exhibit, index)
    pen |= {"markevery": max(1, len(x) // 6)} if pen.get("marker") else {}
    axes.plot(x, y, clip_on=False, solid_joinstyle="round", **pen)
    alone = _alone(y)
    if alone.any():
        axes.plot(x[alone], y[alone], clip_on=False, color=pen["color"], marker="o", ms=3.5, mew=0, ls="none")
    _crosses(sheet, axes, missing[np.isfinite(missing)], up.low)


def _crosses(sheet: Sheet, axes: Axes, missing: np.ndarray, low: float) -> None:
    """Mark at the foot where values are missing, some way apart, so that a long stretch is a row of marks."""
    if not len(missing):
        return
    places, foot = axes.transData.transform(np.column_stack([missing, np.full(len(missing), low)])).T
    places = places[np.isfinite(places)]
    apart = places[np.unique(np.floor(places / 9), return_index=True)[1]].tolist()
    sheet.line(apart, [sheet.height - float(foot[0]) - 5] * len(apart), **CROSS)


def _alone(y: np.ndarray) -> np.ndarray:
    """Return which points have no neighbor, so that no line goes through them."""
    known = np.concatenate([[False], np.isfinite(y), [False]])
    alone: np.ndarray = known[1:-1] & ~known[:-2] & ~known[2:]
    return alone
