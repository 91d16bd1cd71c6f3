"""Histograms: few as ridges, many as one heat map."""

from __future__ import annotations

import numpy as np
from matplotlib import colormaps

from nbdebug.charts import HistogramGrid
from nbdebug.charts.choice import evenly_spaced
from nbdebug.charts.static.scales import Scale, tick_label
from nbdebug.charts.static.sheet import BLUE, INK, RIGHT, VERMILION, WIDTH, Sheet, below_title, label_width
from nbdebug.core.text import clipped

__all__ = ["histograms"]

MOST, FEW = 48, 8


def histograms(exhibit: HistogramGrid) -> Sheet:
    """Draw one row a histogram, each by its own greatest count, because layers differ in size."""
    rows = evenly_spaced(len(exhibit.counts), MOST)
    names = [clipped(exhibit.rows[i] if i < len(exhibit.rows) else i, 26) for i in rows]
    few = len(rows) <= FEW
    size, tall = (11.0, 34.0) if few else (10.0, 13.0)
    notes = [] if few else ["brighter: more values (per row)"]
    if len(rows) < len(exhibit.counts):
        notes.append(f"{len(rows)} rows, evenly spaced … and {len(exhibit.counts) - len(rows)} more")
    top, left = below_title(exhibit.title), label_width(names, size)
    bottom = top + tall * len(rows)
    sheet = Sheet(bottom + 34 + 16 * len(notes), exhibit.title)
    for index, name in enumerate(names):
        sheet.text(left - 7, top + tall * (index + 1) - (4 if few else 3), name, size, "end")
    shares = _shares([exhibit.counts[i] for i in rows])
    if few:
        _ridges(sheet, shares, left, top, bottom, exhibit.marked)
    else:
        _heat(sheet, shares, left, top, bottom)
    _edges(sheet, exhibit, left, bottom)
    for index, note in enumerate(notes):
        sheet.text(0, bottom + 46 + 16 * index, note, 10.5)
    return sheet


def _shares(counts: list[tuple[float, ...]]) -> np.ndarray:
    """Return counts as shares of the greatest of their row; rows of unequal length end in nothing."""
    wide = max(map(len, counts))
    square = np.array([[*row, *[0.0] * (wide - len(row))] for row in counts], dtype=float)
    square = np.nan_to_num(square, nan=0.0, posinf=0.0, neginf=0.0)
    shares: np.ndarray = square / np.maximum(square.max(axis=1, keepdims=True), 1e-12)
    return shares


def _ridges(sheet: Sheet, shares: np.ndarray, left: float, top: float, bottom: float, marked: tuple[int, ...]) -> None:
    tall = (bottom - top) / len(shares)
    axes = sheet.plot(left, top, bottom - top, Scale(0, max(shares.shape[1], 1)))
    for row, heights in enumerate(shares):
        floor = tall * (row + 1) - 3
        sheet.line((left, WIDTH - RIGHT), (top + floor, top + floor), color=INK, lw=0.6, alpha=0.3)
        sizes = np.where(heights > 0, np.maximum((tall - 7) * heights, 0.6), 0)
        axes.stairs(floor - sizes, baseline=floor, fill=True, color=BLUE, lw=0, clip_on=False)
        for bin_ in marked:
            if bin_ < len(sizes):
                axes.stairs([floor - sizes[bin_]], [bin_, bin_ + 1], baseline=floor, fill=True, color=VERMILION, lw=0)


def _heat(sheet: Sheet, shares: np.ndarray, left: float, top: float, bottom: float) -> None:
    colors = colormaps["viridis"](shares, bytes=True)[..., :3]
    sheet.images([(left, top, WIDTH - RIGHT - left, bottom - top, colors)])


def _edges(sheet: Sheet, exhibit: HistogramGrid, left: float, bottom: float) -> None:
    """Label bins by their edges, which need not be evenly spaced."""
    bins = max(len(exhibit.edges) - 1, 1)
    for mark in sorted({round(i * bins / 4) for i in range(5)}):
        if mark < len(exhibit.edges):
            x = left + (WIDTH - RIGHT - left) * mark / bins
            sheet.line((x, x), (bottom, bottom + 3), color=INK, lw=0.8)
            sheet.tick(x, bottom + 15, tick_label(float(f"{float(exhibit.edges[mark]):.2g}")))
    sheet.text((left + WIDTH) / 2, bottom + 29, clipped(exhibit.x_label, 50), 10.5, "middle")
