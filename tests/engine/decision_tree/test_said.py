"""What the user says goes its whole way: into the order of the run, the journal and every written form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from nbdebug.core.journal import Event
from nbdebug.engine.decision_tree import order_for
from nbdebug.report.terminal import as_text
from tests import loops
from tests.zoo.tabular import digits

ANSWERS = {"labels-fit": True, "target-error": 0.05, "metric-wanted": "accuracy <of digits>", "nan-when": "Later"}


def setup(model: nn.Module | None = None) -> dict[str, Any]:
    """Return digits and a small model."""
    torch.manual_seed(0)
    return {"model": model or loops.mlp(), "loader": digits(), "loss_fn": nn.CrossEntropyLoss(), "progress": False}


@pytest.fixture(scope="module")
def report() -> nbdebug.Report:
    """A report with a symptom and answers of every kind."""
    return nbdebug.diagnose(**setup(), checks=["forward-fails"], symptom="loss is NaN", answers=ANSWERS)


def test_the_run_follows_the_symptom() -> None:
    """All checks, in the order for the complaint."""
    order = [check for _, step, _ in order_for("too-slow") for check in step.checks]
    report = nbdebug.diagnose(**setup(), symptom="It is too slow", time_limit=0.5)
    assert [result.check for result in report.results] == order
    assert order[0] == "loading-bottleneck"


def test_what_answers_the_complaint_is_read_first() -> None:
    """Of two causes of the same weight, the one that was asked for comes first."""
    x, y = (torch.as_tensor(part) for part in load_digits(return_X_y=True))
    x = x.float() / 16
    broken = x.clone()
    broken[7, 30] = float("nan")
    train = DataLoader(TensorDataset(broken, y), batch_size=32, shuffle=True)
    other = DataLoader(TensorDataset(3 * x + 2, y), batch_size=32)  # prepared in another way
    given = setup() | {"loader": train, "val_loader": other, "checks": ["non-finite-inputs", "split-shift"]}
    plain = nbdebug.diagnose(**given).alarms
    asked = nbdebug.diagnose(**given, symptom="bad-on-validation").alarms
    assert [f.check for f in plain] == ["non-finite-inputs", "split-shift"]
    assert [f.check for f in asked] == ["split-shift", "non-finite-inputs"]
    assert len({f.severity for f in plain}) == 1


def test_answers_are_kept_as_their_kind(report: nbdebug.Report) -> None:
    """Numbers stay numbers, yes is yes, and a choice is written as it is offered."""
    assert report.symptom == "loss-is-nan"
    assert report.answers == {
        "labels-fit": "yes",
        "target-error": 0.05,
        "metric-wanted": "accuracy <of digits>",
        "nan-when": "later",
    }


@pytest.mark.parametrize("ending", ["html", "md", "ipynb", "txt"])
def test_every_form_says_it(report: nbdebug.Report, ending: str, tmp_path: Path) -> None:
    """The words of the question, the answer, and what follows from it; a text of the user's is no markup."""
    if ending == "txt":
        text = " ".join(as_text(report).split())
        assert "Your answer" in text and "When does the loss become NaN? later" in text and "0.05" in text
        return
    text = report.save(tmp_path / f"report.{ending}").read_text(encoding="utf-8")
    assert "Your answers" in text and "The loss is NaN" in text
    assert "When does the loss become NaN?" in text.replace("&#63;", "?")
    assert "<of digits>" not in text and "accuracy" in text
    assert "add asserts to the loader" in text  # the advice that follows from "later"


def test_data_keeps_it_and_older_files_are_read(report: nbdebug.Report, tmp_path: Path) -> None:
    """It goes into the file and back; a file from before has no answers, and a broken one is refused."""
    path = report.save(tmp_path / "report.json")
    assert nbdebug.load(path).answers == report.answers and nbdebug.load(path).symptom == "loss-is-nan"
    data = json.loads(path.read_text())
    older = {key: value for key, value in data.items() if key not in ("symptom", "answers")}
    assert nbdebug.Report.from_dict(older).answers == {}
    with pytest.raises(nbdebug.BadInput, match="broken"):
        nbdebug.Report.from_dict({**data, "answers": 3})
    strange = nbdebug.Report.from_dict({**data, "symptom": "gloom", "answers": {"unheard-of": ["a"]}})
    assert "unheard-of" in as_text(strange) and "gloom" in strange.save(tmp_path / "strange.html").read_text()


def test_a_session_holds_the_answers() -> None:
    """The wizard answers through the session; whoever listens hears of it, and an answer can be taken back."""
    given = setup()
    given.pop("progress")
    session = nbdebug.Session(nbdebug.Setup(**given), symptom="too slow")
    heard: list[Event] = []
    session.journal.subscribe(heard.append)
    session.answer("slow-where", True)
    session.answer("target-error", 0.1)
    session.answer("target-error", None)
    assert session.journal.answers == {"slow-where": "yes"} and session.journal.symptom == "too-slow"
    assert (heard[0].kind, heard[0].name, heard[0].text) == ("answer", "slow-where", "yes")
    session.complain("loss is NaN")
    assert session.journal.symptom == "loss-is-nan"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"symptom": "it is haunted"}, "The loss is NaN"),
        ({"symptom": 3}, "The loss is NaN"),
        ({"answers": ["yes"]}, "dict"),
        ({"answers": {"labels-fit": "perhaps"}}, "unsure"),
        ({"answers": {"target-error": "low"}}, "finite number"),
        ({"answers": {"target-error": float("nan")}}, "finite number"),
        ({"answers": {"metric-wanted": 3}}, "text"),
        ({"answers": {"labels-fits": "yes"}}, "labels-fit"),
    ],
)
def test_what_is_no_answer_is_refused(options: dict[str, Any], expected: str) -> None:
    """Before anything runs, with what would do."""
    with pytest.raises(nbdebug.BadInput, match=expected):
        nbdebug.diagnose(**setup(), **options)
