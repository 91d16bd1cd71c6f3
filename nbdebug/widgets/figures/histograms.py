"""Histograms, live: the counts of one row at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import bqplot
import ipywidgets as widgets
import numpy as np

from nbdebug.charts import HistogramGrid
from nbdebug.core.text import clipped
from nbdebug.widgets.figures.base import BLUE, MARGIN, QUIET, VERMILION, LiveFigure, head

__all__ = ["LiveHistograms"]


class LiveHistograms(LiveFigure):
    """The counts of one row as bars; a menu chooses the row."""

    kind = HistogramGrid

    def _made(self, chart: HistogramGrid) -> dict[str, Any]:
        across, up = bqplot.LinearScale(), bqplot.LinearScale(min=0)
        tip = bqplot.Tooltip(fields=["x", "y"], labels=[clipped(chart.x_label, 30), "count"], formats=[".4g", ".4g"])
        self._bars = bqplot.Bars(x=[], y=[], scales={"x": across, "y": up}, colors=[BLUE], padding=0, tooltip=tip)
        self._across, self._up = bqplot.Axis(scale=across, color="#7f7f7f"), bqplot.Axis(scale=up, **QUIET)
        self._across.grid_lines, self._up.orientation, self._up.label = "none", "vertical", "count"
        self._up.label_offset = "46px"
        self._rows = widgets.Dropdown(description="row", layout=widgets.Layout(width="auto", max_width="420px"))
        self._rows.observe(lambda change: self._show_row(), "index")
        return {"marks": [self._bars], "axes": [self._across, self._up], "fig_margin": MARGIN, "padding_y": 0}

    def _controls(self) -> Sequence[widgets.Widget]:
        return (self._rows,)

    def _fill(self, chart: HistogramGrid, final: bool) -> None:
        self.figure.layout.height = "220px"
        self._chart, chosen = chart, self._rows.index or 0
        names = [clipped(chart.rows[i] if i < len(chart.rows) else i, 60) for i in range(len(chart.counts))]
        if self._rows.options != tuple((name, i) for i, name in enumerate(names)):
            self._rows.options = tuple((name, i) for i, name in enumerate(names))
        self._rows.index = min(chosen, len(names) - 1)
        self._rows.layout.display = None if len(names) > 1 else "none"
        self._head.value = head(chart.title)
        self._show_row()

    def _show_row(self) -> None:
        chart = self._chart
        counts = np.nan_to_num(np.asarray(chart.counts[self._rows.index or 0], dtype=float))
        edges = np.asarray(chart.edges, dtype=float)
        even = len(edges) == len(counts) + 1 and np.allclose(np.diff(edges), np.diff(edges)[:1])
        marks = np.unique(np.linspace(0, len(edges) - 1, 5).astype(int))
        with self._bars.hold_sync(), self._across.hold_sync():
            # Bins of different widths are drawn alike, and labeled by their edges.
            self._bars.x = (edges[:-1] + edges[1:]) / 2 if even else np.arange(len(counts)) + 0.5
            self._bars.y = counts
            self._bars.colors = [VERMILION if i in chart.marked else BLUE for i in range(max(len(counts), 1))]
            self._across.tick_values = None if even else marks.astype(float)
            self._across.tick_labels = None if even else {str(mark): f"{edges[mark]:.2g}" for mark in marks.tolist()}
            self._across.label = clipped(chart.x_label, 60)
