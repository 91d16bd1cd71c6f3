"""The command line, called as CI calls it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from nbdebug.__main__ import main
from nbdebug.report.schema import report_schema

SETUPS = """
import torch
from torch import nn

def healthy():
    torch.manual_seed(0)
    x = torch.randn(64, 8)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    return {"model": model, "loader": [(x, x.sum(1, keepdim=True))],
            "loss_fn": nn.MSELoss()}

def broken():
    return {**healthy(), "model": nn.Linear(9, 1)}

def loud():
    import os, sys
    print("a line of the program")
    os.write(1, b"a line of its libraries\\n")
    return broken()

def nothing():
    return {}

def raising():
    raise RuntimeError("no data here")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a module of set-ups."""
    (tmp_path / "setups.py").write_text(SETUPS)
    return tmp_path


def call(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Call `python -m nbdebug` in that folder."""
    return subprocess.run(
        [sys.executable, "-m", "nbdebug", *arguments], cwd=folder, capture_output=True, text=True, timeout=200
    )


def test_a_bug_fails_and_is_written(folder: Path) -> None:
    """A bug gives exit code 1, the report on standard output, and the data file."""
    done = call(
        folder, "diagnose", "setups:broken", "--checks", "forward-fails", "--json", "out/report.json", "--quiet"
    )
    assert done.returncode == 1, done.stderr
    assert "forward-fails" in done.stdout and not done.stderr
    assert json.loads((folder / "out" / "report.json").read_text())["findings"][0]["check"] == "forward-fails"


@pytest.fixture
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Call from inside the folder, in this process, and forget its module after."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    yield
    sys.modules.pop("setups", None)


@pytest.mark.usefixtures("inside")
def test_fail_on_never_and_a_healthy_model_pass() -> None:
    """Exit code 0 where nothing as grave was found, or where nothing is to fail."""
    chosen = ("--checks", "forward-fails,batch-mixing", "--quiet")
    assert main(["diagnose", "setups:broken", "--fail-on", "never", *chosen]) == 0
    assert main(["diagnose", "setups:healthy", *chosen]) == 0


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("setups", "colon"),
        ("nowhere:f", "no module 'nowhere'"),
        ("setups:absent", "absent"),
        ("setups:torch", "module"),
        ("setups:nothing", "returned a dict"),
        ("setups:raising", "no data here"),
    ],
)
@pytest.mark.usefixtures("inside")
def test_a_wrong_call_says_what_to_do(name: str, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, one message, no traceback."""
    assert main(["diagnose", name]) == 2
    said = capsys.readouterr().err
    assert word in said and "What to do" in said and "Traceback" not in said


def test_explain_and_list(capsys: pytest.CaptureFixture[str]) -> None:
    """Every check is listed, one is explained, and an unknown one gets the nearest names."""
    assert main(["checks"]) == 0 and "batch-mixing" in capsys.readouterr().out
    assert main(["explain", "batch-mixing"]) == 0 and "Why it matters" in capsys.readouterr().out
    assert main(["explain", "batch-mixin"]) == 2 and "batch-mixing" in capsys.readouterr().err


def test_the_tree_is_drawn_for_a_symptom(capsys: pytest.CaptureFixture[str]) -> None:
    """With the steps numbered that are walked first; another symptom is refused with the list."""
    assert main(["tree", "--symptom", "loss is NaN"]) == 0
    assert "Input values [1]" in capsys.readouterr().out
    assert main(["tree", "--symptom", "gloom"]) == 2
    assert "The loss is NaN" in capsys.readouterr().err


@pytest.mark.usefixtures("inside")
def test_a_symptom_orders_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    """It stands in the report; a wrong one ends the call."""
    chosen = ("--checks", "forward-fails", "--quiet")
    assert main(["diagnose", "setups:healthy", "--symptom", "it is too slow", *chosen]) == 0
    assert "Your answer: What is wrong? It is too slow" in capsys.readouterr().out
    assert main(["diagnose", "setups:healthy", "--symptom", "gloom", *chosen]) == 2


@pytest.mark.usefixtures("inside")
def test_quick_leaves_out_what_trains(tmp_path: Path) -> None:
    """The switch reaches the diagnosis, and the report says what was left out."""
    asked = ("--checks", "forward-fails,cannot-overfit-batch", "--quick", "--quiet")
    assert main(["diagnose", "setups:healthy", *asked, "--json", str(tmp_path / "quick.json")]) == 0
    results = json.loads((tmp_path / "quick.json").read_text())["results"]
    assert [result["status"] for result in results] == ["clean", "skipped"]
    assert results[1]["reason"] == 'omitted by effort="quick"'


@pytest.mark.parametrize("form", ["json", "sarif", "markdown"])
def test_standard_output_holds_the_report_alone(folder: Path, form: str) -> None:
    """What the program prints, also from C, goes to standard error."""
    done = call(folder, "diagnose", "setups:loud", "--checks", "forward-fails", "--quiet", "--format", form)
    assert done.returncode == 1, done.stderr
    assert "a line of the program" in done.stderr and "a line of its libraries" in done.stderr
    if form == "markdown":
        assert done.stdout.startswith("# nbdebug: ") and "forward-fails" in done.stdout
        return
    data = json.loads(done.stdout)
    if form == "json":
        Draft202012Validator(report_schema()).validate(data)
    assert (data["findings"][0]["check"] if form == "json" else data["runs"][0]["results"][0]["ruleId"]) == (
        "forward-fails"
    )


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """It is the one that the package carries, and valid."""
    assert main(["schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema == report_schema()
    Draft202012Validator.check_schema(schema)
