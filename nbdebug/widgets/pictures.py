"""The pictures beside an answer: words, charts that bqplot draws live, and the numbers below them."""

from __future__ import annotations

import time
from collections.abc import Sequence

import ipywidgets as widgets

from nbdebug.charts import Bars, Exhibit, HistogramGrid, Lines
from nbdebug.report.page import Proof
from nbdebug.widgets.boxes import fitting
from nbdebug.widgets.charts import Chart, chart_widget

__all__ = ["LIVE", "Pictures"]

LIVE: tuple[type[Exhibit], ...] = (Bars, Lines, HistogramGrid)
SETTLING = 1.0  # seconds in which a page makes a figure, and would fail at changes of it
STATIC_EVERY = 2.0  # seconds between two static pictures of a curve that grows, for pages without bqplot


class Pictures(widgets.VBox):
    """Shows one proof after another; charts are updated in place where they are of the same kind."""

    def __init__(self) -> None:
        self._above, self._below = widgets.HTML(), widgets.HTML()
        self._charts: list[Chart] = []
        self._made = self._drawn = 0.0
        super().__init__([self._above, self._below])
        self.add_class("nbdebug-picture")

    @property
    def value(self) -> str:
        """What is shown where no chart is drawn live."""
        return "".join([self._above.value, *(chart.static for chart in self._charts), self._below.value])

    def show(self, proof: Proof) -> None:
        """Show other pictures."""
        self._above.value, self._below.value = fitting(proof.above), fitting(proof.below)
        self._draw(proof.charts)

    def grow(self, chart: Exhibit) -> None:
        """Show one chart that goes on changing, at most ten times a second."""
        if len(self._charts) != 1 or self._above.value or self._below.value:
            self.show(Proof(charts=(chart,)))
            self._made = self._drawn = time.monotonic()
            return
        if time.monotonic() - self._made < SETTLING:
            return
        whole = time.monotonic() - self._drawn > STATIC_EVERY
        self._drawn = time.monotonic() if whole else self._drawn
        self._charts[0].update(chart, final=whole)

    def _draw(self, charts: Sequence[Exhibit]) -> None:
        for shown, chart in zip(self._charts, charts, strict=False):
            shown.update(chart)
        self._charts += [chart_widget(chart) for chart in charts[len(self._charts) :]]
        gone = self._charts[len(charts) :]
        del self._charts[len(charts) :]
        self.children = (self._above, *self._charts, self._below)
        for chart in gone:
            chart.close()
