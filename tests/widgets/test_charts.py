"""A chart as a widget: what bqplot is sent, how it is updated and closed, and what stands in for it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import bqplot
import numpy as np
import pytest
import torch
from ipywidgets.widgets.widget import _instances
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.charts import Bars, Exhibit, HistogramGrid, Lines
from nbdebug.engine.session import Session
from nbdebug.evidence.overfit_one_batch import Overfit
from nbdebug.setup import Setup
from nbdebug.widgets import charts
from nbdebug.widgets.charts import Chart, chart_widget
from nbdebug.widgets.explore import Explored
from nbdebug.widgets.figures.base import BLUE, VERMILION
from nbdebug.widgets.figures.lines import MOST_CROSSES
from tests.report.hostile import exhibits
from tests.report.payloads import PAYLOADS
from tests.report.samples import bars, histograms, images, lines, table
from tests.report.test_draw import ODD


@contextmanager
def messages() -> Iterator[list[str]]:
    """Collect what is sent to the front end."""
    sent: list[str] = []

    def publish(_: Any, kind: str, data: Any = None, *args: Any, **more: Any) -> None:
        sent.append(json.dumps([kind, data], default=str))

    with mock.patch("comm.base_comm.BaseComm.publish_msg", publish), mock.patch("comm.DummyComm.publish_msg", publish):
        yield sent


def figure_of(chart: Chart) -> bqplot.Figure:
    return chart.children[0].children[-1]


@pytest.mark.parametrize("chart", [bars(), lines(), histograms()], ids=lambda chart: chart.kind)
def test_a_figure_stands_beside_its_picture(chart: Exhibit) -> None:
    widget = chart_widget(chart, "what it shows")
    assert isinstance(figure_of(widget), bqplot.Figure) and figure_of(widget).animation_duration == 0
    assert 'alt="what it shows"' in widget.children[-1].value and "data:image/svg+xml" in widget.children[-1].value
    assert "data:image/svg+xml" in widget._repr_mimebundle_()["text/html"]
    widget.close()


@pytest.mark.parametrize("chart", [images(), table(), Bars((), ()), Lines(())], ids=lambda chart: chart.kind)
def test_what_is_no_figure_is_a_picture_or_a_table(chart: Exhibit) -> None:
    widget = chart_widget(chart)
    assert len(widget.children) == 1
    widget.close()


@pytest.mark.parametrize("name", ODD)
def test_odd_numbers_are_shown(name: str) -> None:
    chart_widget(ODD[name]).close()


def test_closing_leaves_no_model() -> None:
    before = set(_instances)
    made = [chart_widget(chart, "x") for chart in (bars(), lines(), histograms(), images(), table())]
    made[0].update(histograms(3))  # takes another figure
    made[1].update(lines())
    assert len(set(_instances) - before) > 50
    for widget in made:
        widget.close()
        widget.close()
    assert set(_instances) == before


def test_an_update_changes_numbers_and_makes_nothing() -> None:
    widget = chart_widget(Lines.of_losses([("a", [3.0, 2.0])], "Loss"))
    figure, before = figure_of(widget), set(_instances)
    with messages() as sent:
        widget.update(Lines.of_losses([("a", [3.0, 2.0, 1.0])], "Loss"))
    assert figure_of(widget) is figure and set(_instances) == before
    assert figure.marks[0].y.tolist() == [3.0, 2.0, 1.0]
    assert sum('"comm_open"' in each for each in sent) == 0
    widget.close()


def test_updates_are_at_most_ten_a_second_and_the_last_one_counts() -> None:
    widget = chart_widget(Lines.of_losses([("a", [3.0])], "Loss"))
    with mock.patch.object(charts.time, "monotonic", side_effect=[100.0, 100.05, 100.2, 100.21]):
        for number, final in enumerate((False, False, False, True), 2):
            widget.update(Lines.of_losses([("a", [3.0] * number)], "Loss"), final=final)
            seen = len(figure_of(widget).marks[0].y)
            assert seen == {2: 2, 3: 2, 4: 4, 5: 5}[number]
    widget.close()


def test_a_line_has_at_most_2000_points_and_its_spikes() -> None:
    values = [1.0] * 100_000
    values[77_777] = 9.0
    widget = chart_widget(Lines.of_losses([("a", values)], "Loss"))
    assert len(figure_of(widget).marks[0].y) <= 2000 and 9.0 in figure_of(widget).marks[0].y
    widget.close()


def test_where_a_curve_is_not_finite_there_are_crosses() -> None:
    widget = chart_widget(lines())
    *_, gaps = figure_of(widget).marks
    assert 0 < len(gaps.x) <= MOST_CROSSES and gaps.x.min() == 3000 and gaps.x.max() == 4999
    assert "non-finite (NaN or Inf): 2000 points" in widget.children[0].children[0].value
    assert all(math.isfinite(mark.y[-1]) for mark in figure_of(widget).marks if len(mark.y))
    widget.close()


def test_zoom_is_switched_on_and_taken_back() -> None:
    widget = chart_widget(Lines.of_losses([("a", [3.0, 2.0])], "Loss"))
    switch, whole = widget.children[0].children[1].children
    figure = figure_of(widget)
    assert figure.interaction is None
    switch.value = True
    assert isinstance(figure.interaction, bqplot.PanZoom)
    scale = figure.marks[0].scales["x"]
    scale.min, scale.max = 0.2, 0.4  # as the page does
    widget.update(Lines.of_losses([("a", [3.0, 2.0, 1.0])], "Loss"))
    assert scale.min == 0.2  # an update keeps what is looked at
    whole.click()
    assert scale.min is None and scale.max is None
    widget.close()


def test_bars_out_of_the_band_are_marked_not_by_color_alone() -> None:
    widget = chart_widget(Bars(("low", "fine", "fine", "bad"), (0.1, 1.0, 1.1, math.nan), band=(0.5, 2.0)))
    (mark,) = figure_of(widget).marks
    assert list(mark.x) == ["! bad  NaN", "fine  1.1", "fine  1", "! low  0.1"]
    assert mark.colors == [VERMILION, BLUE, BLUE, VERMILION]
    assert np.isfinite(mark.y).all()
    widget.close()


def test_a_row_of_a_histogram_is_chosen() -> None:
    widget = chart_widget(HistogramGrid(("a", "b"), (0.0, 1.0, 2.0), ((1.0, 2.0), (5.0, 6.0))))
    menu, figure = widget.children[0].children[1:]
    menu.index = 1
    assert figure.marks[0].y.tolist() == [5.0, 6.0] and figure.marks[0].x.tolist() == [0.5, 1.5]
    widget.close()


@pytest.mark.parametrize("text", PAYLOADS[::8])
def test_hostile_labels_are_escaped_where_they_become_markup(text: str) -> None:
    for chart in exhibits(text):
        widget = chart_widget(chart, text)
        found = (
            [widget.children[-1].value, *(child.value for child in widget.children[0].children[:1])]
            if len(widget.children) > 1
            else [widget.children[-1].value]
        )
        assert not any("<script" in html.lower() or "<img src=x" in html.lower() for html in found)
        widget.close()


def test_without_bqplot_the_picture_stands_alone() -> None:
    with mock.patch.dict(sys.modules, {"nbdebug.widgets.figures": None}):
        widget = chart_widget(bars(), "x")
        assert len(widget.children) == 1 and "data:image/svg+xml" in widget.children[0].value
        widget.close()


def test_bqplot_is_loaded_by_the_first_figure() -> None:
    code = "import sys, nbdebug.widgets.charts; assert not {'bqplot', 'matplotlib'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_training_tab_shows_what_was_trained_and_updates_in_place() -> None:
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(32, 4), torch.randint(0, 3, (32,)))
    session = Session(Setup(nn.Linear(4, 3), DataLoader(data, 16), nn.CrossEntropyLoss()))
    before = set(_instances)
    explored = Explored(session)
    (words,) = explored.content("Training") or []
    assert "No training has run" in words.value
    session.measure(Overfit)
    chart, words = explored.content("Training") or []
    assert isinstance(chart, Chart) and "No training has run" not in words.value
    assert (explored.content("Training") or [])[0] is chart
    explored.close()
    assert set(_instances) == before
