"""Bars: one a label, the noteworthy ones where there are too many."""

from __future__ import annotations

import math

from nbdebug.charts import Bars
from nbdebug.charts.drawing.scale import Scale, heading, vertical_grid
from nbdebug.charts.drawing.sheet import BLUE, GREEN, INK, VERMILION, WIDTH, Box, Sheet, Stroke, Words, clipped
from nbdebug.core.text import figure

__all__ = ["bars", "label_width"]

ROW, MOST, VALUE = 18.0, 32, 58.0


def bars(exhibit: Bars) -> Sheet:
    """Draw one horizontal bar a label; what is not finite is named, what lies outside the healthy band stands out."""
    values = [float(value) for value in exhibit.values]
    kept = noteworthy(values, exhibit.band)
    labels = [clipped(exhibit.labels[i] if i < len(exhibit.labels) else i, 26) for i in kept]
    sheet = Sheet()
    top = heading(sheet, exhibit.title) + (16 if exhibit.band else 0)
    bottom = top + ROW * len(kept) + 2
    scale = _scale([values[i] for i in kept], exhibit, label_width(labels))
    if exhibit.band:
        _band(sheet, scale, exhibit.band, top, bottom)
    vertical_grid(sheet, scale, top, bottom)
    for row, (index, label) in enumerate(zip(kept, labels, strict=True)):
        _row(sheet, scale, top + ROW * row, label, values[index], exhibit.band)
    sheet.height = bottom + 20
    _foot(sheet, exhibit, values, kept, scale)
    return sheet


def label_width(labels: list[str]) -> float:
    """Estimate the room that labels need; measuring would need the reader's font."""
    return min(0.46 * WIDTH, 6.1 * max(map(len, labels), default=0) + 8)


def noteworthy(values: list[float], band: tuple[float, float] | None) -> list[int]:
    """Choose the bars to draw, in their order: those not finite or out of the band first, then both extremes."""
    if len(values) <= MOST:
        return list(range(len(values)))
    order = sorted(range(len(values)), key=lambda i: values[i] if math.isfinite(values[i]) else 0.0)
    extremes = [i for pair in zip(order, reversed(order), strict=True) for i in pair]
    first = [i for i in extremes if not math.isfinite(values[i])] + [i for i in extremes if _is_out(values[i], band)]
    return sorted(list(dict.fromkeys((*first, *extremes)))[:MOST])


def _is_out(value: float, band: tuple[float, float] | None) -> bool:
    return not math.isfinite(value) or (band is not None and not band[0] <= value <= band[1])


def _scale(values: list[float], exhibit: Bars, left: float) -> Scale:
    """Leave room for the numbers at the ends of the bars."""
    edges = [edge for edge in exhibit.band or () if math.isfinite(edge)]
    every = [value for value in (*values, *edges) if math.isfinite(value)]
    positive = [value for value in every if value > 0]
    if exhibit.log and positive:
        return Scale(min(positive) / 2, max(max(positive), min(positive) * 1.5), left, WIDTH - VALUE, log=True)
    low, high = min([0.0, *every]), max([0.0, *every])
    start = left + (VALUE if low < 0 else 0)
    return Scale(low, high if high > low else low + 1.0, start, WIDTH - (VALUE if high > 0 or low == 0 else 8))


def _band(sheet: Sheet, scale: Scale, band: tuple[float, float], top: float, bottom: float) -> None:
    low, high = max(band[0], scale.low), min(band[1], scale.high)
    start, stop = scale(low), scale(high)
    if stop > start:
        sheet.add(Box(start, top, stop - start, bottom - top, GREEN, 0.16))
    limits = f"normal range: {figure(band[0])} to {figure(band[1])}"
    sheet.add(Box(0, top - 13, 10, 9, GREEN, 0.35), Words(15, top - 5, limits, 10.5))


def _row(sheet: Sheet, scale: Scale, y: float, label: str, value: float, band: tuple[float, float] | None) -> None:
    out = _is_out(value, band)
    zero = scale.start if scale.log or scale.low > 0 else scale(0.0)
    place = scale(value)
    end = place if math.isfinite(place) else zero
    start, width = min(zero, end), abs(end - zero)
    left = end < zero
    sheet.add(
        Words(scale.start - (VALUE if scale.low < 0 and not scale.log else 0) - 7, y + 13, label, 11, "end"),
        Box(start, y + 3, max(width, 1.0), ROW - 6, VERMILION if out else BLUE),
        Words(
            end + (-5 if left else 5), y + 13, figure(_three_digits(value)), 11, "end" if left else "start", bold=out
        ),
    )


def _three_digits(value: float) -> float:
    return float(f"{value:.3g}") if math.isfinite(value) and abs(value) < 1000 else value


def _foot(sheet: Sheet, exhibit: Bars, values: list[float], kept: list[int], scale: Scale) -> None:
    if exhibit.unit:
        sheet.height += 14
        sheet.add(Words((scale.start + scale.stop) / 2, sheet.height - 4, clipped(exhibit.unit, 60), 10.5, "middle"))
    chosen = set(kept)
    rest = [value for index, value in enumerate(values) if index not in chosen]
    if rest:
        low, high = figure(min(rest)), figure(max(rest))
        span = f"each {low}" if low == high else f"between {low} and {high}"
        sheet.height += 18
        sheet.add(
            Stroke(((0, sheet.height - 17), (WIDTH, sheet.height - 17)), INK, 0.6, opacity=0.22),
            Words(0, sheet.height - 4, f"… and {len(rest)} more, {span}", 11),
        )
