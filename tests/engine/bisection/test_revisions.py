"""Two revisions of real Git repositories, made here: exchanged where objects can cross, walked where they cannot."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest
from jsonschema import Draft202012Validator

from nbdebug.__main__ import main
from nbdebug.engine.bisection.revisions.bisecting import bisect_revisions
from nbdebug.engine.bisection.revisions.repository import Repository
from nbdebug.errors import BadInput
from nbdebug.report.schema import bisection_schema

STEPS = 60
ENTRY = "training.setup:make_setup"
DATA = """
import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

def loader(batch=32):
    x, y = load_digits(return_X_y=True)
    return DataLoader(TensorDataset(torch.tensor(x / 16, dtype=torch.float32), torch.tensor(y)), batch, shuffle=True)
"""
NET = """
from torch import nn

TEMPERATURE = 1.0

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.act, self.last = nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)

    def forward(self, x):
        return self.last(self.act(self.first(x))) / TEMPERATURE
"""
SETUP = """
import importlib
import torch
from torch import nn
import training.data
import training.data as data

def step(model, batch, loss_fn, optimizer):
    from training.loop import one_step
    return one_step(model, batch, loss_fn, optimizer)

def make_setup():
    print("from the program")
    torch.manual_seed(0)
    model = importlib.import_module("training.net").Net()
    assert training.data is data
    return {"model": model, "loader": data.loader(), "loss_fn": nn.CrossEntropyLoss(), "train_step": step,
            "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3)}
"""
LOOP = """
def one_step(model, batch, loss_fn, optimizer):
    optimizer.zero_grad()
    loss = loss_fn(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss
"""
OPERATOR = """
import torch

LIBRARY = torch.library.Library("digits_of_a_test", "DEF")  # once in a process
LIBRARY.define("half(Tensor x) -> Tensor")
"""
FILES = {"data": DATA, "net": NET, "setup": SETUP, "loop": LOOP, "__init__": ""}


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def repository(folder: Path, changes: Sequence[tuple[str, str, str]], **files: str) -> Path:
    """Commit a training, and then one change after the other: a module, what is replaced, and by what."""
    (folder / "training").mkdir(parents=True)
    git(folder, "init", "--quiet")
    for name, text in {**FILES, **files}.items():
        (folder / "training" / f"{name}.py").write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Classify digits")
    for module, old, new in changes:
        path = folder / "training" / f"{module}.py"
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))
        git(folder, "commit", "--quiet", "--all", "--message", f"Write {new.splitlines()[0]}")
    return folder


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which temporary files are made meanwhile."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def content(folder: Path) -> dict[str, str]:
    """Return every file below a folder, those of Git included, with a digest."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_pair_whose_objects_cross_is_exchanged(tmp_path: Path, temporary: Path) -> None:
    """The cause is a global of one module, which imports within functions and by name have to lead to."""
    changes = [("data", "batch=32", "batch=40"), ("net", "TEMPERATURE = 1.0", "TEMPERATURE = 1e30"),
               ("setup", "lr=3e-3", "lr=2.5e-3")]  # fmt: skip
    folder = repository(tmp_path / "work", changes)
    (folder / "training" / "net.py").write_text("not what is committed")
    before = content(folder)
    found = bisect_revisions(ENTRY, "HEAD~3", "HEAD", folder=folder, steps=STEPS)
    assert found.outcome == "explained" and found.exchange is not None and found.walk is None, str(found)
    assert found.exchange.cause is not None and found.exchange.cause.names == ("architecture",)
    names = {row.name for row in found.exchange.differences.rows}
    assert names == {"batch size", "architecture", "learning rate"}, "and neither the step nor anything else"
    row = found.exchange.ingredient("architecture")
    assert row.good_place is not None and row.good_place.file == f"{found.good.short}:training/net.py"
    assert content(folder) == before and not list(temporary.glob("nbdebug-*"))
    data = json.loads(found.save(tmp_path / "out.json").read_text())
    Draft202012Validator(bisection_schema()).validate(data)
    assert data["exchange"]["outcome"] == "explained"
    assert "architecture" in found.save(tmp_path / "out.html").read_text()


def test_a_pair_whose_objects_cannot_cross_is_walked(tmp_path: Path, temporary: Path) -> None:
    changes = [("data", "batch=32", "batch=40"), ("setup", "lr=3e-3", "lr=3e-9"), ("net", "1.0", "1.01")]
    folder = repository(tmp_path / "work", changes, setup=f"{SETUP}\nimport training.operator\n", operator=OPERATOR)
    before = content(folder)
    found = bisect_revisions(ENTRY, "HEAD~3", "HEAD", folder=folder, steps=STEPS)
    assert found.exchange is None and "digits_of_a_test" in found.notes[0], str(found)
    assert found.walk is not None and found.walk.first_bad is not None, str(found)
    assert found.walk.first_bad.subject == "Write lr=3e-9" and found.outcome == "explained"
    assert '+            "optimizer": torch.optim.Adam(model.parameters(), lr=3e-9)}' in found.walk.diff
    assert [step.verdict for step in found.walk.steps[:2]] == ["learns", "fails"]
    assert "The first commit that fails is" in str(found) and "Write lr=3e-9" in found._repr_html_()
    assert content(folder) == before and not list(temporary.glob("nbdebug-*"))
    Draft202012Validator(bisection_schema()).validate(json.loads(json.dumps(found.to_dict(), allow_nan=False)))


def test_a_revision_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    folder = repository(tmp_path / "work", [("setup", 'print("from', 'open("rows.csv")\n    print("from')])
    with pytest.raises(BadInput, match=r"(?s)bad, revision \w+ .*FileNotFoundError.*--link PATH"):
        bisect_revisions(ENTRY, "HEAD~1", "HEAD", folder=folder)
    with pytest.raises(BadInput, match="there is no commit '--all'"):
        bisect_revisions(ENTRY, "--all", "HEAD", folder=folder)
    with pytest.raises(BadInput, match="in no work tree of Git"):
        bisect_revisions(ENTRY, "HEAD~1", "HEAD", folder=tmp_path)


def test_files_that_are_not_committed_can_be_linked(tmp_path: Path) -> None:
    folder = repository(tmp_path / "work", [])
    (folder / "rows.csv").write_text("1")
    place = Repository(folder)
    with place.checked_out(place.revision("HEAD"), ["rows.csv"]) as checkout:
        assert (checkout.folder / "rows.csv").read_text() == "1" and not (checkout.tree / ".git").exists()
    assert (folder / "rows.csv").exists() and not checkout.tree.exists()
    with pytest.raises(BadInput, match="--link"), place.checked_out(place.revision("HEAD"), ["../elsewhere"]):
        pass


def test_an_interrupt_leaves_neither_files_nor_processes(tmp_path: Path, temporary: Path) -> None:
    """While the program hangs, so that nothing of nbdebug hears of it in the child."""
    hanging = f"import os, time\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    folder = repository(tmp_path / "work", [], setup=hanging)
    command = [sys.executable, "-m", "nbdebug", "bisect", ENTRY, "--good", "HEAD", "--bad", "HEAD", "--quiet"]
    process = subprocess.Popen(command, cwd=folder, env=dict(os.environ), stdout=subprocess.PIPE)
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert process.poll() is None
        time.sleep(0.1)
    assert list(temporary.glob("nbdebug-*"))
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate()
    assert process.returncode == 130 and b"interrupted" in said
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text())) and not list(temporary.glob("nbdebug-*"))


def test_two_functions_are_bisected_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["tests.engine.bisection.entry_points:good", "tests.engine.bisection.entry_points:bad"]
    code = main(["bisect", *names, "--steps", str(STEPS), "--format", "json", "--quiet"])
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert code == 1 and found["causes"][0]["names"] == ["learning rate"]
    assert "from the program" in captured.err
    assert main(["bisect", names[0], names[0], "--steps", str(STEPS), "--quiet"]) == 0


@pytest.mark.parametrize("arguments", [["a:b"], ["a:b", "--good", "HEAD"], ["a:b", "c:d", "--good", "x", "--bad", "y"]])
def test_calls_that_name_too_much_or_too_little_are_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bisect", *arguments]) == 2
    assert "neither two set-ups nor one with two revisions" in capsys.readouterr().err
