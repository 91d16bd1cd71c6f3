"""The example notebooks: they run in a real kernel, and are stored with outputs that anybody can read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "example_notebooks").glob("*.ipynb"))
KILOBYTE = 1000
MACHINE_PATH = re.compile(r"(?<![\w.])/(tmp|root|work|home|Users|var|private)/")

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code_cells(path: Path) -> list[Any]:
    """Return the cells of a notebook that are run."""
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


@pytest.mark.kernel
@every_notebook
def test_it_runs(path: Path, tmp_path: Path) -> None:
    """Every cell runs, the assertions among them; what is written goes elsewhere, and the notebook stays as it is."""
    before = path.read_bytes()
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=240,
        kernel_name="python3",
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute()
    assert path.read_bytes() == before


@every_notebook
def test_it_is_stored_as_it_ran(path: Path) -> None:
    """Cells were run once from top to bottom, show something, and none ended in an error."""
    cells = code_cells(path)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    kinds = [output.output_type for cell in cells for output in cell.outputs]
    assert kinds and "error" not in kinds
    nbformat.validate(nbformat.read(path, as_version=4))


@every_notebook
def test_its_outputs_are_static(path: Path) -> None:
    """No state of widgets, which nobody could show, and no path of the machine that it ran on."""
    notebook = nbformat.read(path, as_version=4)
    assert "widgets" not in notebook.metadata
    outputs = json.dumps([cell.outputs for cell in code_cells(path)])
    assert "widget-view+json" not in outputs
    assert not MACHINE_PATH.search(outputs), MACHINE_PATH.search(outputs)


def test_they_claim_something() -> None:
    """Every notebook asserts what it says; of the one that only shows a first use, the tests of watch do."""
    for path in NOTEBOOKS:
        if path.stem != "watch":
            assert sum("assert " in cell.source for cell in code_cells(path)) >= 2, path.stem


def test_they_are_small() -> None:
    """A clone should not pay for pictures."""
    sizes = {path.name: path.stat().st_size for path in NOTEBOOKS}
    assert all(size < 200 * KILOBYTE for size in sizes.values()), sizes
    assert sum(sizes.values()) < 1000 * KILOBYTE, sizes


def test_the_readme_lists_them() -> None:
    """Whoever reads README finds every one of them."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for path in NOTEBOOKS:
        assert f"(example_notebooks/{path.name})" in readme
