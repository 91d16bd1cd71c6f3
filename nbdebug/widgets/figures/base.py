"""What the figures of bqplot have in common: the words above, the update in place, and their end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, ClassVar

import bqplot
import ipywidgets as widgets
import numpy as np

from nbdebug.charts import Exhibit
from nbdebug.charts.static.scales import scale_over, tick_label
from nbdebug.core.text import clean_text, clipped
from nbdebug.widgets.closing import take_down

__all__ = ["BLUE", "COLORS", "DASHES", "MARGIN", "QUIET", "VERMILION", "LiveFigure", "head", "mark_decades"]

BLUE, VERMILION = "#0072B2", "#D55E00"  # Okabe and Ito: color-blind people can tell them apart
COLORS = (BLUE, "#E69F00", "#009E73", "#CC79A7", VERMILION, "#56B4E9", "#8C8C8C")
DASHES = {"solid": "", "dashed": "5 5", "dotted": "1 3", "dash_dotted": "6 3 1 3"}
QUIET: dict[str, Any] = {"grid_lines": "solid", "grid_color": "rgba(127,127,127,0.2)", "color": "#7f7f7f"}
MARGIN = {"top": 10, "bottom": 40, "left": 64, "right": 14}


class LiveFigure:
    """A figure with the words above it; the kinds of charts give its marks and axes, and the data of an update."""

    kind: ClassVar[type[Exhibit]]

    def __init__(self, chart: Any) -> None:
        self._head = widgets.HTML()
        self._parts = self._made(chart)
        self.figure = bqplot.Figure(
            animation_duration=0,
            background_style={"fill": "none"},
            display_toolbar=False,  # its icons need a font that not every server gives
            layout=widgets.Layout(width="100%", min_width="0"),
            **self._parts,
        )
        self.view = widgets.VBox([self._head, *self._controls(), self.figure])
        self.view.add_class("nbdebug-chart-live")
        self._shape = self._shape_of(chart)
        self._fill(chart, True)

    def update(self, chart: Any, *, final: bool = True) -> bool:
        """Show other data in the same figure; False where that takes other marks.

        With `final=False` more is to follow at once, and what takes the page long is left for later.
        """
        if type(chart) is not self.kind or self._shape_of(chart) != self._shape:
            return False
        self._fill(chart, final)
        return True

    def close(self) -> None:
        """Close everything that the figure consists of: each is a model of its own."""
        marks, axes = self._parts["marks"], self._parts["axes"]
        scales = {id(s): s for mark in marks for s in mark.scales.values()}
        tips = [mark.tooltip for mark in marks if mark.tooltip is not None]
        own = [self.figure.scale_x, self.figure.scale_y, *self._tools()]
        take_down((self.view, *marks, *axes, *scales.values(), *tips, *own))

    def _tools(self) -> Sequence[widgets.Widget]:
        """Return what is no part of the figure at all times."""
        return ()

    def _made(self, chart: Any) -> dict[str, Any]:
        raise NotImplementedError

    def _fill(self, chart: Any, final: bool) -> None:
        raise NotImplementedError

    def _shape_of(self, chart: Any) -> Any:
        return type(chart)

    def _controls(self) -> Sequence[widgets.Widget]:
        return ()


def mark_decades(axis: bqplot.Axis, values: Iterable[float], most: int) -> None:
    """Mark round values on a logarithmic axis: by itself it marks all that there is no room for."""
    scale = scale_over(values, log=True)
    marks = np.array(scale.ticks(most))
    if not np.array_equal(axis.tick_values, marks):
        axis.tick_values, axis.tick_labels = marks, {f"{mark:.16g}": tick_label(mark) for mark in marks.tolist()}


def head(title: str, entries: Sequence[tuple[str, str, str]] = (), notes: Sequence[str] = ()) -> str:
    """Return the words above a figure: its title, each curve by color, dash and name, and notes."""
    shown = "".join(
        '<span style="white-space:nowrap;margin-right:16px"><svg width="24" height="8" aria-hidden="true">'
        f'<path d="M0 4H24" stroke="{color}" stroke-width="2" stroke-dasharray="{DASHES[dash]}"/></svg> '
        f"{escape(clipped(name, 60))}</span>"
        for color, dash, name in entries
    )
    said = "".join(f"<div>{escape(note)}</div>" for note in notes)
    heading = f'<b style="font-size:13px">{escape(clean_text(title))}</b>'
    return f'<div style="line-height:1.4;font-size:12px">{heading}<div>{shown}</div>{said}</div>'
