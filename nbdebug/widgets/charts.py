"""A chart as a widget: bqplot draws bars, curves and histograms live, and the static picture stands in where it cannot.

Whether the page has bqplot's front end is known only there, so both are sent, and the style sheet shows the live figure
once it exists. Whoever cannot see it is read the text of the picture in either case.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from html import escape
from typing import Any

import ipywidgets as widgets

from nbdebug.charts import Exhibit, Table
from nbdebug.charts.draw import is_drawn
from nbdebug.core.rng_safe_import import drawing_nothing
from nbdebug.core.text import clean_text
from nbdebug.views import page
from nbdebug.widgets.closing import take_down

__all__ = ["Chart", "chart_widget"]

AT_MOST_EVERY = 0.1  # seconds between two updates of a figure
STYLE = """<style>
.nbdebug-chart:has(.bqplot) > .nbdebug-chart-static {
  position: absolute; width: 1px; height: 1px; margin: 0; overflow: hidden; clip-path: inset(50%); }
.nbdebug-chart:not(:has(.bqplot)) > .nbdebug-chart-live { display: none; }
.nbdebug-chart .bqplot > svg .axis text.axislabel, /* which bqplot makes orange on dark ground */
.nbdebug-chart .bqplot > svg .axis text { fill: var(--jp-ui-font-color1, currentColor) !important; }
.nbdebug-chart .bqplot text { font-size: 11px; }
.nbdebug-chart .bqplot .axis line, .nbdebug-chart .bqplot .axis path { stroke: rgba(127, 127, 127, 0.35); }
</style>"""


def chart_widget(chart: Exhibit, label: str = "") -> Chart:
    """Return a chart as a widget; `label` says in words what it shows. Close it when it is no longer shown."""
    return Chart(chart, label)


class Chart(widgets.VBox):
    """A figure of bqplot with the static picture beside it; `update` exchanges the data in place."""

    def __init__(self, chart: Exhibit, label: str = "") -> None:
        self._live: Any = None
        self._act: Callable[[int], None] | None = None
        self._updated = 0.0
        self._static = widgets.HTML()
        self._static.add_class("nbdebug-chart-static")
        super().__init__([self._static], layout=widgets.Layout(width="100%", max_width="640px"))
        self.add_class("nbdebug-chart")
        self._show(chart, label)

    def update(self, chart: Exhibit, label: str = "", *, final: bool = True) -> None:
        """Show other data; with `final=False`, what comes within a tenth of a second is left out, and so is the
        picture.
        """
        now = time.monotonic()
        if not final and now - self._updated < AT_MOST_EVERY:
            return
        self._updated = now
        if self._live is None or not is_drawn(chart) or not self._live.update(chart, final=final):
            self._show(chart, label)
        elif final:
            self._static.value = _picture(chart, label)

    def on_choose(self, act: Callable[[int], None]) -> None:
        """Let a click on a bar choose it, where bars are drawn live: `act` is told its place in the chart."""
        self._act = act
        if self._live is not None and hasattr(self._live, "on_choose"):
            self._live.on_choose(act)

    def choose(self, place: int) -> None:
        """Show which bar is chosen."""
        if self._live is not None and hasattr(self._live, "choose"):
            self._live.choose(place)

    @property
    def static(self) -> str:
        """The picture that stands in where bqplot's front end is missing."""
        return str(self._static.value)

    def close(self) -> None:
        """Close the figure with everything that it consists of."""
        if self.comm is None:  # the collector closes it a second time
            return
        live, self._live = self._live, None
        if live is not None:
            live.close()
        children, layout = self.children, self.layout
        take_down(children)
        super().close()
        layout.close()

    def _show(self, chart: Exhibit, label: str) -> None:
        self._take_down_live()
        self._live = _live(chart)
        if self._act is not None:
            self.on_choose(self._act)
        live = [self._live.view] if self._live is not None else []
        self._static.value = _picture(chart, label)
        self.children = [*live, self._static]

    def _take_down_live(self) -> None:
        if self._live is not None:
            self.children = [self._static]
            self._live.close()
            self._live = None

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """Add the picture, for what shows no widgets at all."""
        live = super()._repr_mimebundle_(**options)
        return {**live, "text/html": self._static.value} if isinstance(live, dict) else live


def _live(chart: Exhibit) -> Any:
    """Return the live figure of a chart; None for kinds that are no figure, and where bqplot is not installed."""
    try:
        with drawing_nothing():
            from nbdebug.widgets.figures import FIGURES
    except ImportError:
        return None
    kind = FIGURES.get(type(chart))
    return kind(chart) if kind is not None and is_drawn(chart) else None


def _picture(chart: Exhibit, label: str) -> str:
    """Return the static form: a table as a table, everything else as an image."""
    title = str(getattr(chart, "title", ""))
    if isinstance(chart, Table):
        return f"<p><b>{escape(clean_text(title))}</b></p>{page.table(chart.columns, chart.rows)}"
    return STYLE + page.drawn(chart, label or title, 500)
