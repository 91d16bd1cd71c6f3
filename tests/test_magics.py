"""The magics and a notebook's own checks, in a real kernel."""

from __future__ import annotations

import re

import nbformat
import pytest
from nbclient import NotebookClient

from tests.failing import FAILURES, PREPARE

SETUP = """
%load_ext nbdebug
%load_ext nbdebug
import torch, nbdebug
from torch import nn
from dataclasses import dataclass
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
loader = [(torch.randn(12, 4), torch.randint(0, 3, (12,))) for _ in range(4)]
"""

OWN = '''
@dataclass(frozen=True)
class Width:
    widest: int

@nbdebug.probe
def width(sandbox: nbdebug.Sandbox) -> Width:
    """Measure the widest layer."""
    return Width(max(p.shape[0] for p in sandbox.model.parameters()))

@nbdebug.check
def too_wide(width: Width, *, most: int = 4):
    """A layer is wider than we allow.

    Why it matters: it has to fit on the device that we ship.

    What to try: make it narrower, or split it in two.
    """
    if width.widest > most:
        yield nbdebug.Finding(f"The widest layer has {width.widest} units.", where="0")
'''

SAVE = """
import pathlib, tempfile
path = pathlib.Path(tempfile.mkdtemp()) / "out.json"
get_ipython().run_line_magic("nbdebug", f"report {path}")
print(path.stat().st_size > 1000)
"""


def run(*cells: str, allow_errors: bool = False) -> list[str]:
    """Run cells in a real kernel and give each one's text."""
    return [_said(cell) for cell in cells_of(*cells, allow_errors=allow_errors).cells]


def cells_of(*cells: str, allow_errors: bool = False) -> nbformat.NotebookNode:
    """Run cells in a real kernel and give the notebook."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=200, kernel_name="python3", allow_errors=allow_errors).execute()
    return notebook


def _said(cell: nbformat.NotebookNode) -> str:
    return "\n".join(_text(output) for output in cell.outputs)


def _text(output: nbformat.NotebookNode) -> str:
    if output.output_type == "stream":
        return str(output.text)
    if output.output_type == "error":
        return f"{output.ename}: {output.evalue}"
    return str(output.data.get("text/plain", ""))


@pytest.mark.kernel
def test_magics_and_own_checks() -> None:
    """The extension loads twice, the magics answer, and a check defined in a cell works at once and again."""
    shown = run(
        SETUP,
        OWN,
        "nbdebug.diagnose(model, loader, checks=['too-wide'], progress=False)",
        OWN.replace("most: int = 4", "most: int = 400"),
        "nbdebug.diagnose(model, loader, checks=['too-wide'], progress=False)",
        "%nbdebug explain too-wide",
        "%nbdebug wizard model loader",
        "%nbdebug wizard model loadr",
        "%nbdebug dance",
        "%unload_ext nbdebug",
        "%nbdebug explain too-wide",
        allow_errors=True,
    )
    assert "too-wide" in shown[2] and "8 units" in shown[2]
    assert "No problems found" in shown[4]
    assert "Why it matters: it has to fit" in shown[5]
    assert "nbdebug wizard on Sequential" in shown[6]
    assert "loadr" in shown[7] and "run its cell first" in shown[7]
    assert "%nbdebug wizard MODEL LOADER" in shown[8]
    assert "not found" in shown[10]


@pytest.mark.kernel
def test_diagnose_magic_saves_a_report() -> None:
    """`%nbdebug diagnose` and `%nbdebug report` go together; without the first the second says so."""
    shown = run(
        SETUP,
        "%nbdebug report out.json",
        "report = %nbdebug diagnose model loader\nreport",
        SAVE,
        "%nbdebug tree",
        "%nbdebug tree report",
        'quick = %nbdebug diagnose model loader --quick\nprint(quick.result("cannot-overfit-batch").reason)',
        allow_errors=True,
    )
    assert "run %nbdebug diagnose" in shown[1]
    assert "✓ First pass" in shown[4] and "takes no arguments" in shown[5]
    assert "omitted by effort=" in shown[6]
    assert "checks in" in shown[2]
    assert "True" in shown[3]


@pytest.mark.kernel
def test_the_error_of_the_cell_before_is_explained() -> None:
    """The magic finds the last error, the module in it and what would fit; without an error it says so."""
    shown = run(
        SETUP,
        "%nbdebug explain-error",
        "model(torch.randn(12, 5))",
        "%nbdebug explain-error",
        "%nbdebug explain-error model",
        allow_errors=True,
    )
    assert "no exception was raised yet" in shown[1]
    assert "fails in `0` (Linear)" in shown[3] and "in_features=5 (it is 4)" in shown[3]
    assert "takes no arguments" in shown[4]


@pytest.mark.kernel
def test_each_kind_of_error_is_explained_by_the_magic() -> None:
    """What the extension offers as a button, a line says without it; the kind, the place and what would fit."""
    cells = [cell for failure in FAILURES for cell in (failure.code, "%nbdebug explain-error")]
    shown = run(f"%load_ext nbdebug\n{PREPARE}", *cells, allow_errors=True)[2::2]
    for failure, said in zip(FAILURES, shown, strict=True):
        missing = [words for words in failure.said if words not in " ".join(said.split())]
        assert not missing, f"{failure.kind}: {missing} not in\n{said}"


LOOP = """%%watch model
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for x, y in loader * 3:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""


@pytest.mark.kernel
def test_watch_follows_the_loop_of_its_cell() -> None:
    """The run is shown below the cell and left in `live`; afterwards nothing hangs on the model."""
    said = run(
        SETUP,
        LOOP,
        "print(live.step, live.is_running, len(model._forward_hooks), round(live.recording().loss.last) > 0)",
    )
    assert said[1].count("Sequential, 12 steps") == 1  # one view, which followed the loop
    assert "12 False 0 True" in said[2]


@pytest.mark.kernel
def test_watch_says_what_is_wrong_with_its_line_and_shows_the_error_of_its_cell() -> None:
    """An unknown name, no name, and an error in the loop, after which nothing hangs on the model either."""
    broken = "%%watch model\nmodel(loader[0][0])\nraise ValueError('mine')"
    said = run(SETUP, "%%watch modle\n1", "%%watch\n1", broken, "print(len(model._forward_hooks))", allow_errors=True)
    assert "no variable 'modle'" in said[1] and "one or two names" in said[2]
    assert "mine" in said[3] and said[4].strip() == "0"


AFTER_SETUP = """
import types
optimizer = torch.optim.SGD(model.parameters(), 0.1)
trainer = types.SimpleNamespace(model=model, opt=optimizer)
def fit(times=3):
    for x, y in loader * times:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
"""


@pytest.mark.kernel
def test_watch_runs_its_cell_as_a_notebook_would() -> None:
    """The view comes first, then what is printed and the value of the last line; annotations stay what they are."""
    notebook = cells_of(
        f"{SETUP}{AFTER_SETUP}",
        "%%watch model, optimizer\nfit()\ndef f(x: int): ...\nprint(f.__annotations__)\n40 + 2",
        "%%watch trainer.model trainer.opt --every 5 --budget 1\nfit()",
        "print(live.step, len(live.recording().layers['0'].mean), live.recording().budget)",
        "%nbdebug tree",
    )
    outputs = notebook.cells[1].outputs
    kinds = [output.output_type for output in outputs]
    assert kinds == ["display_data", "display_data", "stream", "execute_result"]
    assert "widget-view" in str(outputs[0].data) and "12 steps" in outputs[1].data["text/plain"]
    assert outputs[2].text == "{'x': <class 'int'>}\n" and outputs[3].data["text/plain"] == "42"
    said = [_said(cell) for cell in notebook.cells]
    assert said[3].split()[0] == "12" and int(said[3].split()[1]) < 12 and said[3].split()[2] == "1.0"
    assert "First pass" in said[4]


@pytest.mark.kernel
def test_watch_says_what_is_left_after_an_error() -> None:
    """The line and the cell of the error are the user's own, and one line says that the run is kept."""
    notebook = cells_of(f"{SETUP}{AFTER_SETUP}", "%%watch model\nfit(1)\n1 / 0", allow_errors=True)
    assert "`live` holds the recording up to the end of the cell: 4 steps." in _said(notebook.cells[1])
    error = next(output for output in notebook.cells[1].outputs if output.output_type == "error")
    trace = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error.traceback))
    assert "Cell In[2], line 3" in trace and "In[0]" not in trace and "exec(part" not in trace


@pytest.mark.kernel
def test_watch_tells_wrong_lines_apart() -> None:
    """An expression, a dotted name that leads nowhere, an unknown option and an option without a number."""
    lines = ("model[0]", "trainer.net", "model --often 3", "model --every often", "model a b")
    words = ("'model[0]' is none", "has no 'net'", "has no option --often", "'often' is none", "one or two names")
    said = run(f"{SETUP}{AFTER_SETUP}", *(f"%%watch {line}\n1" for line in lines), allow_errors=True)[1:]
    assert all(word in text for word, text in zip(words, said, strict=True)), said
