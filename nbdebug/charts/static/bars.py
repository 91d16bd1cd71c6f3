"""Bars: one a label, the noteworthy ones where there are too many."""

from __future__ import annotations

import math

from matplotlib.axes import Axes

from nbdebug.charts import Bars
from nbdebug.charts.choice import is_out, noteworthy
from nbdebug.charts.static.scales import LARGEST, Scale
from nbdebug.charts.static.sheet import (
    BLUE,
    GREEN,
    INK,
    RIGHT,
    VERMILION,
    WIDTH,
    Sheet,
    below_title,
    label_width,
)
from nbdebug.core.text import clipped, figure

__all__ = ["bar_scale", "bars"]

ROW, VALUE = 18.0, 58.0


def bars(exhibit: Bars) -> Sheet:
    """Draw one horizontal bar a label; what is not finite is named, what lies outside the healthy band stands out."""
    values = [float(value) for value in exhibit.values]
    kept = noteworthy(values, exhibit.band)
    labels = [clipped(exhibit.labels[i] if i < len(exhibit.labels) else i, 26) for i in kept]
    top = below_title(exhibit.title) + (16 if exhibit.band else 0)
    bottom = top + ROW * len(kept) + 2
    notes = _notes(exhibit, values, kept)
    sheet = Sheet(bottom + 20 + sum(14 + 4 * ruled for _, ruled in notes), exhibit.title)
    _plot(sheet, exhibit, [values[i] for i in kept], labels, top, bottom)
    foot = bottom + 20
    for note, ruled in notes:
        foot += 14 + 4 * ruled
        if ruled:
            sheet.line((0, WIDTH), (foot - 17, foot - 17), color=INK, lw=0.6, alpha=0.22)
        sheet.text(0 if ruled else WIDTH / 2, foot - 4, note, 11 if ruled else 10.5, "start" if ruled else "middle")
    return sheet


def bar_scale(values: list[float], exhibit: Bars) -> Scale:
    """Return the limits that hold every bar and the band; on a linear scale they hold 0.

    A single positive value has nothing to be compared with on a logarithmic scale, which has no 0: its bar is linear.
    """
    every = [min(max(v, -LARGEST), LARGEST) for v in (*values, *(exhibit.band or ())) if math.isfinite(v)]
    positive = [max(value, 1 / LARGEST) for value in every if value > 0]
    if exhibit.log and len(positive) > 1:
        return Scale(min(positive) / 2, max(max(positive), min(positive) * 1.5), log=True)
    low, high = min([0.0, *every]), max([0.0, *every])
    return Scale(low, high if high > low else low + 1.0)


def _plot(sheet: Sheet, exhibit: Bars, values: list[float], labels: list[str], top: float, bottom: float) -> None:
    scale = bar_scale(values, exhibit)
    goes_left, goes_right = scale.low < 0 and not scale.log, scale.high > 0 or scale.low == 0
    start = label_width(labels) + (VALUE if goes_left else 0)
    axes = sheet.plot(start, top, bottom - top, scale, right=VALUE if goes_right else RIGHT)
    if exhibit.band:
        _band(sheet, axes, scale, exhibit.band, top)
    sheet.ticks_below(axes, scale, bottom)
    zero = scale.clip(0.0)
    ends = [scale.clip(value) if scale.holds(value) else zero for value in values]
    colors = [VERMILION if is_out(value, exhibit.band) else BLUE for value in values]
    rows = [ROW * (row + 0.5) for row in range(len(values))]
    axes.hlines(rows, zero, ends, colors, lw=ROW - 6, clip_on=False)
    for row, (value, end, label) in enumerate(zip(values, ends, labels, strict=True)):
        _write(sheet, axes, exhibit, top + ROW * row + 13, (value, end, end < zero))
        sheet.text(start - (VALUE if goes_left else 0) - 7, top + ROW * row + 13, label, 11, "end")


def _write(sheet: Sheet, axes: Axes, exhibit: Bars, y: float, bar: tuple[float, float, bool]) -> None:
    """Write a value at the end of its bar; in bold if it stands out, because color alone says nothing to some."""
    value, end, is_left = bar
    x, _ = sheet.place(axes, end, 0)
    text = figure(float(f"{value:.3g}") if math.isfinite(value) and abs(value) < 1000 else value)
    sheet.text(x + (-5 if is_left else 5), y, text, 11, "end" if is_left else "start", is_out(value, exhibit.band))


def _band(sheet: Sheet, axes: Axes, scale: Scale, band: tuple[float, float], top: float) -> None:
    axes.axvspan(scale.clip(band[0]), scale.clip(band[1]), color=GREEN, alpha=0.16, lw=0, zorder=0)
    sheet.box(0, top - 13, 10, 9, GREEN, 0.35)
    sheet.text(15, top - 5, f"normal range: {figure(band[0])} to {figure(band[1])}", 10.5)


def _notes(exhibit: Bars, values: list[float], kept: list[int]) -> list[tuple[str, bool]]:
    """Return the lines below the bars, each with whether a rule stands above it: the unit, and what is left out."""
    notes = [(clipped(exhibit.unit, 60), False)] if exhibit.unit else []
    chosen = set(kept)
    rest = [value for index, value in enumerate(values) if index not in chosen]
    if rest:
        low, high = figure(min(rest)), figure(max(rest))
        span = f"each {low}" if low == high else f"between {low} and {high}"
        notes.append((f"… and {len(rest)} more, {span}", True))
    return notes
