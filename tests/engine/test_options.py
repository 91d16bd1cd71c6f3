"""The options of `diagnose` and `wizard`: one dataclass or keywords, and an error that names what was meant."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
from typing import Any

import pytest
from torch import nn

import nbdebug
from tests.zoo.tabular import digit_rows, split

# What could be passed before there were options; calls with these names must go on working.
FORMER = [
    "val_loader",
    "test_loader",
    "train_step",
    "compute_loss",
    "loss_parts",
    "scheduler",
    "class_names",
    "checkpoint",
    "checks",
    "skip",
    "thresholds",
    "effort",
    "quick",
    "time_limit",
    "seed",
    "sweep_samples",
    "sweep_seconds",
    "progress",
    "symptom",
    "answers",
    "tell_apart",
]


def setup() -> dict[str, Any]:
    return {"model": nn.Sequential(nn.Linear(64, 10), nn.Softmax(dim=1)), "loader": split(*digit_rows())[0]}


def facts(report: nbdebug.Report) -> list[tuple[str, str, str]]:
    return [(result.check, result.status, result.reason) for result in report.results]


def test_every_former_keyword_is_accepted() -> None:
    own = set(inspect.signature(nbdebug.diagnose).parameters)
    assert set(FORMER) <= own | {field.name for field in dataclasses.fields(nbdebug.Options)}


def test_keywords_and_options_do_the_same() -> None:
    chosen: dict[str, Any] = {"checks": ["softmax-before-cross-entropy"], "seed": 3}
    chosen["thresholds"] = {"softmax-before-cross-entropy": {"shortfall": 0.5}}
    loose = nbdebug.diagnose(**setup(), **chosen, progress=False)
    grouped = nbdebug.diagnose(**setup(), options=nbdebug.Options(**chosen), progress=False)
    assert facts(loose) == facts(grouped)
    assert [result.check for result in loose.results] == ["softmax-before-cross-entropy"]


def test_a_keyword_overrides_the_options() -> None:
    options = nbdebug.Options(checks=["empty-loader"], seed=1)
    report = nbdebug.diagnose(**setup(), options=options, checks=iter(["constant-targets"]), progress=False)
    assert [result.check for result in report.results] == ["constant-targets"]
    assert report.environment["seed"] == "1"
    assert options.checks == ("empty-loader",)


@pytest.mark.parametrize("function", [nbdebug.diagnose, nbdebug.wizard], ids=["diagnose", "wizard"])
@pytest.mark.parametrize(
    ("wrong", "meant"), [("val_loder", "val_loader"), ("treshold", "thresholds"), ("timelimit", "time_limit")]
)
def test_an_unknown_name_is_refused_with_the_closest_match(function: Any, wrong: str, meant: str) -> None:
    with pytest.raises(TypeError, match=f"write {meant}=") as caught:
        function(**setup(), **{wrong: None})
    assert isinstance(caught.value, nbdebug.BadInput)
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), TypeError)


def test_a_name_like_no_other_lists_them_all() -> None:
    with pytest.raises(nbdebug.BadInput, match="one of answers, checkpoint, checks, class_names"):
        nbdebug.diagnose(**setup(), zzz=1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"seed": -1},
        {"time_limit": 0},
        {"thresholds": 3},
        {"skip": "dead-units"},
        {"quick": "yes"},
        {"sweep_samples": 0},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_values_are_checked_when_options_are_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(nbdebug.BadInput, match=next(iter(wrong))):
        nbdebug.Options(**wrong)


def test_options_of_another_kind_are_refused() -> None:
    with pytest.raises(nbdebug.BadInput, match=r"options=nbdebug\.Options"):
        nbdebug.diagnose(**setup(), options={"seed": 1})  # type: ignore[arg-type]


def test_the_wizard_takes_the_same_options() -> None:
    options = nbdebug.Options(seed=5, time_limit=7.0, thresholds={"dead-units": {}}, answers={"labels-fit": "yes"})
    wizard = nbdebug.wizard(**setup(), options=options, effort="quick")
    try:
        assert wizard.session.seed == 5
        assert wizard.session.control.quick
        assert wizard.session.journal.answers == {"labels-fit": "yes"}
        wizard.update(val_loader=None)
        assert wizard.session.seed == 5
        assert wizard.session.journal.answers == {"labels-fit": "yes"}
    finally:
        wizard.close()


def test_the_wizard_refuses_what_its_user_chooses_in_it() -> None:
    with pytest.raises(nbdebug.BadInput, match=r"nbdebug\.diagnose\(\.\.\., checks="):
        nbdebug.wizard(**setup(), options=nbdebug.Options(checks=["dead-units"]))
