"""How a view is shown: live and static side by side in a kernel, text elsewhere, plain widgets without the bundle."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import nbdebug
from nbdebug.views.output import in_notebook
from nbdebug.widgets import bundle
from nbdebug.widgets.viewer import PlainViewer, Viewer, viewer
from tests.zoo.tabular import digits

CELL = """
import torch, nbdebug
nbdebug.show_batch([(torch.rand(4, 3, 8, 8), torch.tensor([0, 1, 0, 1]))])
"""


@pytest.mark.kernel
def test_a_kernel_shows_it_live_and_static() -> None:
    """Two outputs: the live view without a text, which would be read twice, and the picture that needs no kernel."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    live, still = (output.data for output in notebook.cells[0].outputs if output.output_type == "display_data")
    assert "application/vnd.jupyter.widget-view+json" in live and "text/plain" not in live
    assert still["text/plain"].startswith("Batch 1")
    assert "data:image/png;base64," in still["text/html"] and "image/png" in still
    assert "widget" not in still["text/html"] and "<script" not in still["text/html"]


@pytest.mark.parametrize("other", ["activations", "gradients", "layers", "curve"])
def test_each_view_has_a_style_sheet_of_its_own(other: str) -> None:
    """anywidget keeps one style sheet per id: views that share an id take each other's styles off the page."""
    batch, second = (viewer(name, {}, "").get_state() for name in ("batch", other))
    assert batch["_css"] != second["_css"] and batch["_anywidget_id"] != second["_anywidget_id"]
    assert viewer("batch", {}, "").get_state()["_anywidget_id"] == batch["_anywidget_id"]


def test_elsewhere_it_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    """In a script or a terminal, the text is printed."""
    nbdebug.show_batch(digits())._ipython_display_()
    assert "Batch 1 of 29" in capsys.readouterr().out
    assert not in_notebook()


def wait(view: Any) -> None:
    end = time.monotonic() + 20
    while view._worker.is_busy and time.monotonic() < end:
        time.sleep(0.01)
    assert not view._worker.is_busy


def test_requests_of_the_front_end_are_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A click that arrives as a request is answered by the worker, in the data, in the detail, or in the status."""
    (tmp_path / "batch.js").write_text("export default { render() {} };")
    (tmp_path / "batch.css").write_text("x {}")
    monkeypatch.setattr(bundle, "STATIC", tmp_path)
    view = nbdebug.show_batch(digits())
    widget = view.widget
    assert isinstance(widget, Viewer) and widget.data["number"] == 1
    widget.request = {"action": "next", "count": 1}
    wait(view)
    assert widget.data["number"] == 2
    widget.request = {"action": "sample", "place": 3, "count": 2}
    wait(view)
    assert widget.detail["place"] == 3 and widget.detail["index"] == view.batch.samples[3].index
    widget.request = {"action": "sample", "place": 999, "count": 3}
    wait(view)
    assert "0 to 63" in widget.status
    view.close()


def test_without_the_bundle_there_are_plain_buttons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The static page with a button for each request."""
    monkeypatch.setattr(bundle, "STATIC", tmp_path)
    bundle._warn.cache_clear()
    view = nbdebug.show_batch(digits())
    with pytest.warns(UserWarning, match=r"Node\.js was missing"):
        widget = view.widget
    assert isinstance(widget, PlainViewer) and "Batch 1 of 29" in widget._picture.value
    next(button for button in widget._buttons if button.description == "Next batch").click()
    wait(view)
    assert "Batch 2 of 29" in widget._picture.value
    view.close()
