"""Charts as widgets in a real page: the live figure where its front end is there, else the picture."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.jupyter import Notebook

SETUP = """
from nbdebug.charts import Bars, HistogramGrid, Lines
from nbdebug.widgets.charts import chart_widget
HOSTILE = "<img src=x onerror=document.title='taken'> $x_1$"
losses = Lines.of_losses([("as it is", [2.3] * 50), (HOSTILE, [2.3 * 0.9**i for i in range(50)])], "Loss of both")
dying = Lines.of_losses([("loss", [2.0, 1.5, 1.2, float("nan"), float("nan")])], "A loss that dies")
norms = Bars(("first", HOSTILE, "last"), (1e-5, float("nan"), 1.0), "Norms", "L2", log=True, band=(1e-3, 10.0))
values = HistogramGrid(("conv1", HOSTILE), (0.0, 1.0, 2.0, 3.0), ((1.0, 5.0, 2.0), (3.0, 1.0, 0.0)), "Values")
"""
CHARTS = ["losses", "dying", "norms", "values"]
CELLS = [SETUP, *(f"made = chart_widget({name}, 'what is shown'); made" for name in CHARTS)]
MORE = "made.update(HistogramGrid(('conv1', 'fc'), (0.0, 1.0, 2.0, 3.0), ((9.0, 5.0, 2.0), (3.0, 1.0, 0.0)), 'Values'))"


def test_figures_are_live_and_show_values_under_the_pointer(notebook: Notebook) -> None:
    notebook.open(f"charts-{notebook.front}.ipynb", CELLS)
    notebook.run_all()
    for cell in range(1, 1 + len(CHARTS)):
        notebook.scroll_to(cell)
        live, picture = notebook.output(cell).locator(".bqplot"), notebook.output(cell).locator(".nbdebug-chart-static")
        expect(live).to_be_visible()
        expect(picture.get_by_role("img", name="what is shown")).to_have_count(1)  # for a screen reader
        assert picture.evaluate("node => node.getBoundingClientRect().width") <= 1
    notebook.scroll_to(1)
    notebook.output(1).get_by_role("button", name="Zoom").click()
    notebook.output(1).locator(".bqplot").hover(position={"x": 66, "y": 12})
    notebook.screenshot(f"charts-{notebook.front}")
    expect(notebook.output(3)).to_contain_text("! first")
    bars = notebook.output(4).locator(".bqplot rect.bar")
    before = bars.first.bounding_box()
    notebook.execute(MORE)
    expect(notebook.output(4).get_by_role("combobox")).to_contain_text("fc")
    assert before is not None and notebook.output(4).locator(".bqplot").count() == 1
    assert notebook.page.title() != "taken"


def test_without_the_front_end_the_picture_stands_in(notebook: Notebook) -> None:
    notebook.page.route(re.compile("/extensions/bqplot/"), lambda route: route.abort())
    notebook.open(f"no-charts-{notebook.front}.ipynb", CELLS)
    notebook.run_all()
    for cell in range(1, 1 + len(CHARTS)):
        notebook.scroll_to(cell)
        picture = notebook.output(cell).get_by_role("img", name="what is shown")
        expect(picture).to_be_visible()
        assert picture.evaluate("node => node.getBoundingClientRect().width") > 300
        expect(notebook.output(cell).locator(".nbdebug-chart-live")).to_be_hidden()
    assert notebook.page.title() != "taken"
    notebook.errors.clear()  # the page complains of what it could not load
