"""The example notebook runs as it stands."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "example_notebooks" / "watch.ipynb"


@pytest.mark.kernel
def test_the_example_runs_and_shows_the_run() -> None:
    notebook = nbformat.read(NOTEBOOK, 4)
    NotebookClient(notebook, timeout=200, kernel_name="python3").execute()
    shown = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]
    runs = [data for data in shown if "nbdebug watch" in data.get("text/plain", "")]
    assert len(runs) == 2 and all("<img" in data["text/html"] for data in runs)
    assert "accuracy" in runs[0]["text/plain"]
