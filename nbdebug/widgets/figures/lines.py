"""Curves, live."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import bqplot
import ipywidgets as widgets
import numpy as np

from nbdebug.charts import Lines
from nbdebug.charts.thinning import thinned
from nbdebug.core.text import clipped, plural
from nbdebug.widgets.figures.base import (
    COLORS,
    DASHES,
    MARGIN,
    QUIET,
    VERMILION,
    LiveFigure,
    head,
    mark_decades,
)

__all__ = ["LiveLines"]

MOST_CURVES, MOST_POINTS, MOST_HOVERED, MOST_CROSSES = 10, 2000, 100, 40
MOST_LIVE = 300  # points while more follow at once: a refresh takes the page a sixth of the time of 2,000
UNSEEN = 0.001  # opacity of the points that answer to the pointer; 0 is taken for none given


class LiveLines(LiveFigure):
    """Curves to zoom; the pointer shows the values of points."""

    kind = Lines

    def _made(self, chart: Lines) -> dict[str, Any]:
        across = bqplot.LogScale() if chart.log_x else bqplot.LinearScale()
        up = bqplot.LogScale() if chart.log_y else bqplot.LinearScale()
        scales = {"x": across, "y": up}
        tip = bqplot.Tooltip(fields=["name", "x", "y"], labels=["", clipped(chart.x_label, 30), "value"])
        tip.formats = ["", ".6g", ".4g"]
        self._lines, self._points = [], []
        for index in range(len(chart.series[:MOST_CURVES])):
            color, dash = _pen(index - chart.repeats * (index >= chart.firsts))
            style = {"scales": scales, "colors": [color]}
            pale = {"opacities": [0.45]} if index >= chart.firsts else {}
            self._lines.append(bqplot.Lines(x=[], y=[], line_style=dash, stroke_width=1.8, **style, **pale))
            self._points.append(bqplot.Scatter(x=[], y=[], tooltip=tip, opacities=[UNSEEN], **style))
        gap = {"scales": scales, "marker": "cross", "colors": [VERMILION], "default_size": 36}
        self._gaps = bqplot.Scatter(x=[], y=[], **gap)
        self._across, self._up = bqplot.Axis(scale=across, **QUIET), bqplot.Axis(scale=up, **QUIET)
        self._up.orientation = "vertical"
        return {
            "marks": [*self._lines, *self._points, self._gaps],
            "axes": [self._across, self._up],
            "fig_margin": MARGIN,
        }

    def _controls(self) -> Sequence[widgets.Widget]:
        scales = self._lines[0].scales
        self._zoom = bqplot.PanZoom(scales={name: [scale] for name, scale in scales.items()})
        switch = widgets.ToggleButton(description="Zoom", tooltip="drag to pan, turn the wheel to zoom")
        whole = widgets.Button(description="Show all")
        for control in (switch, whole):
            control.layout.width, control.layout.height = "auto", "26px"
        switch.observe(
            lambda change: setattr(self.figure, "interaction", self._zoom if change["new"] else None), "value"
        )
        whole.on_click(lambda _: self._show_all())
        return (widgets.HBox([switch, whole]),)

    def _show_all(self) -> None:
        for scale in self._lines[0].scales.values():
            with scale.hold_sync():
                scale.min = scale.max = None

    def _tools(self) -> Sequence[widgets.Widget]:
        return (self._zoom,)

    def _shape_of(self, chart: Lines) -> Any:
        return len(chart.series[:MOST_CURVES]), chart.repeats, chart.log_x, chart.log_y

    def _fill(self, chart: Lines, final: bool) -> None:
        self.figure.layout.height = "260px"
        missing = []
        for (name, xs, ys), line, points in zip(chart.series, self._lines, self._points, strict=False):
            x, y = _xy(xs, ys, chart)
            missing.append(x[~np.isfinite(y)])
            end = np.flatnonzero(np.isfinite(y))[-1:].sum() + 1  # the front end wants the last point to have a place
            x, y = thinned(x[:end], y[:end], MOST_POINTS if final else MOST_LIVE)
            with line.hold_sync():
                line.x, line.y = x, y
            self._fill_points(points, clipped(name, 40), x if final else x[:0], y)
        with self._across.hold_sync(), self._up.hold_sync():
            self._across.label, self._up.label = clipped(chart.x_label, 60), clipped(chart.y_label, 40)
            self._up.label_offset = "46px"
            for axis, is_log, name in ((self._across, chart.log_x, "x"), (self._up, chart.log_y, "y")):
                if is_log:
                    mark_decades(axis, [float(v) for line in self._lines for v in _ends(getattr(line, name))], 6)
        self._mark_gaps(np.concatenate(missing))
        self._head.value = head(chart.title, self._legend(chart), self._notes(chart, sum(map(len, missing))))

    @staticmethod
    def _fill_points(points: bqplot.Scatter, name: str, x: np.ndarray, y: np.ndarray) -> None:
        """Set the points that answer to the pointer; a hundred of them take the page longer than a whole line."""
        known = np.flatnonzero(np.isfinite(x) & np.isfinite(y[: len(x)]))
        chosen = known[np.unique(np.linspace(0, len(known) - 1, min(len(known), MOST_HOVERED)).astype(int))]
        if not len(chosen) and not len(points.x):
            return
        with points.hold_sync():
            points.x, points.y, points.names = x[chosen], y[chosen], [name] * len(chosen)
            points.display_names = False

    def _mark_gaps(self, missing: np.ndarray) -> None:
        """Put crosses at the foot where values are not finite, at most so many."""
        foot = min((v for line in self._lines for v in _ends(line.y)), default=1.0)
        places = np.unique(missing[np.isfinite(missing)])
        places = places[np.unique(np.linspace(0, len(places) - 1, min(len(places), MOST_CROSSES)).astype(int))]
        if len(places) or len(self._gaps.x):
            with self._gaps.hold_sync():
                self._gaps.x, self._gaps.y = places, np.full(len(places), foot)

    @staticmethod
    def _legend(chart: Lines) -> list[tuple[str, str, str]]:
        named = [(*_pen(i), name) for i, (name, _, _) in enumerate(chart.series[: min(MOST_CURVES, chart.firsts)])]
        only = len(named) == 1 and named[0][2] in ("", chart.y_label)  # the axis has its name already
        return [] if only else named

    @staticmethod
    def _notes(chart: Lines, missing: int) -> list[str]:
        more = len(chart.series) - MOST_CURVES
        notes = [f"+ non-finite (NaN or Inf): {plural(missing, 'point')}"] if missing else []
        return [*notes, f"… and {more} more curves"] if more > 0 else notes


def _pen(index: int) -> tuple[str, str]:
    """Return color and dash of a curve: two of one color differ in their dashes."""
    return COLORS[index % len(COLORS)], list(DASHES)[(index + 2 * (index // len(COLORS))) % len(DASHES)]


def _xy(xs: Sequence[float], ys: Sequence[float], chart: Lines) -> tuple[np.ndarray, np.ndarray]:
    """Return a curve in which what has no place on the axes is NaN."""
    shared = min(len(xs), len(ys))
    x, y = np.asarray(xs, dtype=float)[:shared], np.asarray(ys, dtype=float)[:shared]
    hidden = ~np.isfinite(y) | (chart.log_y & (y <= 0)) | (chart.log_x & (x <= 0))
    return x, np.where(hidden, np.nan, y)


def _ends(values: np.ndarray) -> list[float]:
    """Return the least and the greatest finite value."""
    known = values[np.isfinite(values)]
    return [float(known.min()), float(known.max())] if len(known) else []
