"""Histograms: few as ridges, many as one heat map."""

from __future__ import annotations

import numpy as np

from nbdebug.charts import HistogramGrid
from nbdebug.charts.drawing.bars import label_width
from nbdebug.charts.drawing.scale import heading, tick_label
from nbdebug.charts.drawing.sheet import BLUE, INK, WIDTH, Box, Pixels, Sheet, Stroke, Words, clipped

__all__ = ["histograms"]

MOST, FEW = 48, 8
VIRIDIS = np.array(
    [
        [68, 1, 84], [72, 40, 120], [62, 73, 137], [49, 104, 142], [38, 130, 142],
        [31, 158, 137], [53, 183, 121], [110, 206, 88], [181, 222, 43], [253, 231, 37],
    ]
)  # fmt: skip


def histograms(exhibit: HistogramGrid) -> Sheet:
    """Draw one row a histogram, each by its own greatest count, because layers differ in size."""
    rows = _spread(len(exhibit.counts), MOST)
    names = [clipped(exhibit.rows[i] if i < len(exhibit.rows) else i, 26) for i in rows]
    counts = _shares([exhibit.counts[i] for i in rows])
    few = len(rows) <= FEW
    sheet = Sheet()
    top, left, tall = heading(sheet, exhibit.title), label_width(names), 34.0 if few else 13.0
    for index, name in enumerate(names):
        base = top + tall * (index + 1) - (4 if few else 3)
        sheet.add(Words(left - 7, base, name, 11 if few else 10, "end"))
    bottom = top + tall * len(rows)
    if few:
        _ridges(sheet, counts, left, top, tall)
    else:
        sheet.add(Pixels(left, top, WIDTH - 10 - left, bottom - top, _heat(counts)))
    _edges(sheet, exhibit, left, bottom)
    sheet.height = bottom + 34
    notes = [] if few else ["brighter: more values (per row)"]
    if len(rows) < len(exhibit.counts):
        notes.append(f"{len(rows)} rows, evenly spaced … and {len(exhibit.counts) - len(rows)} more")
    for note in notes:
        sheet.height += 16
        sheet.add(Words(0, sheet.height - 4, note, 10.5))
    return sheet


def _spread(count: int, most: int) -> list[int]:
    return list(range(count)) if count <= most else [round(i * (count - 1) / (most - 1)) for i in range(most)]


def _shares(counts: list[tuple[float, ...]]) -> np.ndarray:
    """Return counts as shares of the greatest of their row; rows of unequal length end in nothing."""
    wide = max(map(len, counts))
    square = np.array([[*row, *[0.0] * (wide - len(row))] for row in counts], dtype=float)
    square = np.nan_to_num(square, nan=0.0, posinf=0.0, neginf=0.0)
    shares: np.ndarray = square / np.maximum(square.max(axis=1, keepdims=True), 1e-12)
    return shares


def _ridges(sheet: Sheet, counts: np.ndarray, left: float, top: float, tall: float) -> None:
    step = (WIDTH - 10 - left) / max(counts.shape[1], 1)
    for row, heights in enumerate(counts):
        floor = top + tall * (row + 1) - 3
        sheet.add(Stroke(((left, floor), (WIDTH - 10, floor)), INK, 0.6, opacity=0.3))
        for column, height in enumerate(heights):
            if height > 0:
                size = max(0.6, (tall - 7) * float(height))
                sheet.add(Box(left + step * column, floor - size, max(step - 0.4, 0.5), size, BLUE))


def _heat(counts: np.ndarray) -> np.ndarray:
    marks = np.linspace(0, 1, len(VIRIDIS))
    colors = np.stack([np.interp(counts, marks, VIRIDIS[:, channel]) for channel in range(3)], axis=-1)
    return np.asarray(colors.round(), dtype=np.uint8)


def _edges(sheet: Sheet, exhibit: HistogramGrid, left: float, bottom: float) -> None:
    """Label bins by their edges, which need not be evenly spaced."""
    bins = max(len(exhibit.edges) - 1, 1)
    for mark in sorted({round(i * bins / 4) for i in range(5)}):
        if mark < len(exhibit.edges):
            x = left + (WIDTH - 10 - left) * mark / bins
            label = tick_label(float(f"{float(exhibit.edges[mark]):.2g}"))
            sheet.add(Stroke(((x, bottom), (x, bottom + 3)), INK, 0.8), Words(x, bottom + 15, label, 10.5, "middle"))
    sheet.add(Words((left + WIDTH) / 2, bottom + 29, clipped(exhibit.x_label, 50), 10.5, "middle"))
