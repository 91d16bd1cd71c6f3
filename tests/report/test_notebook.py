"""The report as a notebook: read without running, and run again, with and without a model plugged in."""

import json
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from nbdebug.core.finding import Finding, Result
from nbdebug.engine.explanation import explain
from nbdebug.report import Report
from nbdebug.report.notebook import PICTURE_BYTES, as_notebook
from tests.report.hostile import hostile
from tests.report.payloads import PAYLOADS
from tests.report.samples import bars, healthy, small

ROOT = Path(__file__).parents[2]
PLUGGED = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
data = [(torch.randn(4), i % 3) for i in range(64)]
loader = torch.utils.data.DataLoader(data, batch_size=8)
"""


def notebook_of(report: Report) -> nbformat.NotebookNode:
    notebook = nbformat.reads(as_notebook(report), as_version=4)
    nbformat.validate(notebook)
    return notebook


@pytest.mark.parametrize("report", [small(), healthy(), Report([], [])], ids=["ill", "healthy", "empty"])
def test_it_is_valid_and_holds_nothing_that_needs_a_kernel(report: Report) -> None:
    notebook = notebook_of(report)
    assert notebook.metadata.kernelspec.name == "python3"
    assert "widgets" not in notebook.metadata
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert set(output.data) <= {"text/plain", "text/html", "image/png"}
    ids = [cell.id for cell in notebook.cells]
    assert len(ids) == len(set(ids))
    assert as_notebook(report) == as_notebook(report)


def test_it_reads_like_the_report() -> None:
    cells = notebook_of(small()).cells
    assert cells[0].source.startswith(f"# {explain('softmax-before-cross-entropy').title}")
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    for part in ("head.1", "falls to 0.01", "Clean checks: 3", "Skipped checks: 3", "Crashed: 1", "2.13.0", "seed"):
        assert part in text, part
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    assert "model = None" in code[0] and code[2] == "repeat('softmax-before-cross-entropy')"
    for result in small().results:
        assert any(repr(result.check) in source for source in code), result.check
    pictures = [o for cell in cells for o in cell.get("outputs", []) if "image/png" in o.data]
    assert len(pictures) == 5 and all(o.metadata["image/png"]["alt"] for o in pictures)


def test_it_stays_small_however_many_pictures_there_are() -> None:
    findings = [Finding(f"finding {i}", exhibit=bars(), check=f"check-{i}") for i in range(150)]
    assert len(as_notebook(Report(findings, [Result(f.check, "found", (f,)) for f in findings]))) < 5_000_000
    assert PICTURE_BYTES * 4 / 3 < 5_000_000


def test_hostile_texts_leave_it_valid() -> None:
    notebook = notebook_of(hostile(PAYLOADS[::4]))
    for cell in notebook.cells:
        if cell.cell_type == "code":
            compile(cell.source, "cell", "exec")
    assert "widget" not in json.dumps([list(o.data) for c in notebook.cells for o in c.get("outputs", [])])


def executed(notebook: nbformat.NotebookNode) -> list[str]:
    """Run every cell in a kernel and give what each code cell wrote."""
    NotebookClient(notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}).execute()
    return [
        "".join(o.get("text", "") or o.get("data", {}).get("text/plain", "") for o in cell.outputs)
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


@pytest.mark.kernel
def test_run_as_it_is_it_asks_for_a_model() -> None:
    said = executed(notebook_of(small()))
    assert sum("Set model and loader" in text for text in said) == len(said) - 2


@pytest.mark.kernel
def test_run_with_a_model_it_repeats_each_check() -> None:
    finding = Finding("x", check="forward-fails")
    report = Report([finding], [Result("forward-fails", "found", (finding,)), Result("no-such-check", "clean")])
    notebook = notebook_of(report)
    place = next(i for i, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", []))
    notebook.cells.insert(place + 1, nbformat.v4.new_code_cell(PLUGGED))
    said = executed(notebook)
    assert any("1 check in" in text and "1 clean" in text for text in said), said
    assert any("there is no check called 'no-such-check'" in text for text in said)
