"""Bars, live."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import bqplot
import numpy as np

from nbdebug.charts import Bars
from nbdebug.charts.choice import is_out, noteworthy
from nbdebug.charts.static.bars import bar_scale
from nbdebug.charts.static.scales import scale_over
from nbdebug.core.text import clipped, figure
from nbdebug.widgets.figures.base import BLUE, QUIET, VERMILION, LiveFigure, head, mark_decades

__all__ = ["LiveBars"]

ROW, MOST_LETTERS, MOST_TICKS = 20, 26, 5  # pixels of a bar, letters of its name, values on the axis


class LiveBars(LiveFigure):
    """Horizontal bars, the noteworthy ones where there are too many."""

    kind = Bars

    def _made(self, chart: Bars) -> dict[str, Any]:
        names = bqplot.OrdinalScale()
        values = bqplot.LogScale() if self._is_log(chart) else bqplot.LinearScale()
        tip = bqplot.Tooltip(fields=["x", "y"], labels=["", chart.unit or "value"], formats=["", ".4g"])
        self._bars = bqplot.Bars(x=[], y=[], scales={"x": names, "y": values}, orientation="horizontal", tooltip=tip)
        self._bars.padding = 0.3
        self._values, self._names = bqplot.Axis(scale=values, **QUIET), bqplot.Axis(scale=names, color="#7f7f7f")
        self._names.orientation, self._names.grid_lines = "vertical", "none"
        self._is_told = False
        self._kept: list[int] = []  # the bars that are drawn, from the bottom up, by their place in the chart
        return {"marks": [self._bars], "axes": [self._names, self._values], "padding_y": 0}

    def on_choose(self, act: Callable[[int], None]) -> None:
        """Let a click on a bar choose it: `act` is told its place in the chart."""
        self._bars.interactions = {"click": "select", "hover": "tooltip"}
        self._bars.selected_style = {"stroke": "#7f7f7f", "stroke-width": "3"}

        def chosen(change: Any) -> None:
            places = [int(at) for at in (change["new"] if change["new"] is not None else [])]
            if places and places[-1] < len(self._kept) and not self._is_told:
                act(self._kept[places[-1]])

        self._bars.observe(chosen, "selected")

    def choose(self, place: int) -> None:
        """Show which bar is chosen; none where it is not drawn."""
        at = self._kept.index(place) if place in self._kept else None
        now = [] if self._bars.selected is None else self._bars.selected.tolist()
        if now != ([] if at is None else [at]):
            self._is_told = True  # and not chosen by a person
            self._bars.selected = None if at is None else np.array([at])
            self._is_told = False

    def _shape_of(self, chart: Bars) -> Any:
        return self._is_log(chart), chart.unit

    @staticmethod
    def _is_log(chart: Bars) -> bool:
        return bar_scale([float(value) for value in chart.values], chart).log

    def _fill(self, chart: Bars, final: bool) -> None:
        values = [float(value) for value in chart.values]
        kept = noteworthy(values, chart.band)[::-1]  # the first at the top
        self._kept = kept
        shown = [values[i] for i in kept]
        names = _unlike(_named(chart, i, values[i]) for i in kept)
        drawn = [v if math.isfinite(v) and (v > 0 or not self._is_log(chart)) else math.nan for v in shown]
        low = min((v for v in drawn if math.isfinite(v)), default=0.0) / 2 if self._is_log(chart) else 0.0
        left = 14 + 7 * max(map(len, names))
        with self.figure.hold_sync(), self._bars.hold_sync(), self._values.hold_sync():
            self.figure.fig_margin = {"top": 6, "bottom": 40, "left": left, "right": 24}
            self.figure.layout.height = f"{ROW * len(kept) + 46}px"
            self._bars.base = low
            self._bars.x, self._bars.y = names, np.nan_to_num(np.array(drawn), nan=low)
            self._bars.colors = [VERMILION if is_out(v, chart.band) else BLUE for v in shown]
            self._values.label = clipped(chart.unit, 60)
            if self._is_log(chart):
                mark_decades(self._values, [low, *drawn], MOST_TICKS)
            else:  # by `num_ticks` the front end fails as long as it knows no range
                self._values.tick_values = np.array(scale_over([0.0, *drawn], log=False).ticks(MOST_TICKS))
        self._head.value = head(chart.title, notes=self._notes(chart, values, kept))

    @staticmethod
    def _notes(chart: Bars, values: list[float], kept: list[int]) -> list[str]:
        notes = []
        if chart.band is not None:
            notes.append(f"normal range: {figure(chart.band[0])} to {figure(chart.band[1])}; ! marks what is outside")
        if len(kept) < len(values):
            notes.append(f"{len(kept)} noteworthy bars … and {len(values) - len(kept)} more")
        return notes


def _named(chart: Bars, index: int, value: float) -> str:
    name = clipped(chart.labels[index] if index < len(chart.labels) else index, MOST_LETTERS)
    return f"{'! ' * is_out(value, chart.band)}{name}  {figure(value)}"


def _unlike(names: Iterable[str]) -> list[str]:
    """Make names differ, because an ordinal axis draws equal ones in one place."""
    seen: dict[str, int] = {}
    told = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        told.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return told
