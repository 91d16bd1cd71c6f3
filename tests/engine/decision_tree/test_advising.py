"""What to do next, from real results of real set-ups."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.core.registry import registry
from nbdebug.engine.decision_tree import next_step, order_for, questions
from tests import loops
from tests.zoo.tabular import digits


def examined(checks: list[str], **setup: Any) -> nbdebug.Report:
    """Run some checks on digits, with a softmax too many where nothing else is said."""
    torch.manual_seed(0)
    given = {"model": loops.mlp(nn.Softmax(dim=1)), "loader": digits(), "loss_fn": nn.CrossEntropyLoss()} | setup
    return nbdebug.diagnose(**given, checks=checks, progress=False)


def checks_of(*steps: str) -> list[str]:
    """Return the checks of these steps."""
    return [check for _, step, _ in order_for() for check in step.checks if step.id in steps]


def test_it_begins_where_the_symptom_points() -> None:
    """Nothing ran yet: the first step of the symptom, its reason, and the question that belongs to it."""
    first = next_step([], symptom="loss is NaN")
    assert first.step is not None and first.step.id == "values" and "NaN" in first.why
    second = next_step(examined(checks_of("values")).results, symptom="loss is NaN")
    assert second.step is not None and second.step.id == "finite"
    assert second.question is not None and second.question.id == "nan-when"
    assert next_step([]).step == order_for()[2][1]  # after the two steps that have no checks


def test_an_answer_leads_elsewhere() -> None:
    """What the user said comes before the order of the symptom, and is quoted."""
    later = next_step([], {"nan-when": "within the first hundred steps"}, "loss is NaN")
    assert later.step is not None and later.step.id == "learning-rate"
    assert "hundred steps" in later.why


def test_a_model_that_does_not_run_is_mended_first() -> None:
    """Whatever else could be asked."""
    report = examined(["forward-fails"], model=nn.Linear(7, 10))
    advice = next_step(report.results, {"nan-when": "at the first step"}, "loss is NaN")
    assert advice.step is None and advice.fix is not None and advice.fix.check == "forward-fails"


def hasty() -> dict[str, Any]:
    """Return a training whose steps are far too large."""
    torch.manual_seed(0)
    model = loops.mlp()
    return {"model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=300.0)}


def test_a_bug_asks_for_what_could_explain_it() -> None:
    """A batch that is not learned leads to the rate; once that is found too, the rate is what has to be fixed."""
    results = examined(["cannot-overfit-batch"], **hasty()).results
    assert [f.check for r in results for f in r.findings] == ["cannot-overfit-batch"]
    walked = []
    while "learning-rate" not in walked and len(walked) < 6:
        advice = next_step(results, symptom="loss does not fall")
        assert advice.step is not None and "cannot-overfit-batch" in advice.why
        walked.append(advice.step.id)
        results += examined(list(advice.step.checks), **hasty()).results
    assert walked[-1] == "learning-rate"  # within two steps of the curve's own lead, though the symptom names others
    assert len(walked) <= 2
    rest = [nbdebug.Result(c, "clean") for c in registry.load().checks if c not in {r.check for r in results}]
    end = next_step([*results, *rest], symptom="loss does not fall")
    assert end.fix is not None and end.fix.check == "learning-rate-too-high"


def test_at_the_end_it_asks_and_says_so() -> None:
    """With nothing found there is a question left, and with all answers there is an end."""
    clean = [nbdebug.Result(check, "clean") for check in registry.load().checks]
    asked: dict[str, Any] = {}
    for _ in questions():
        advice = next_step(clean, asked, "bad-on-validation")
        if advice.question is None:
            break
        assert "only you" in advice.why and advice.step is None
        kinds = {"number": 0.1, "text": "accuracy"}
        asked[advice.question.id] = kinds.get(advice.question.kind) or advice.question.answers[0]
    assert set(asked) == {q.id for q in questions("bad-on-validation")}
    last = next_step(clean, asked, "bad-on-validation")
    assert last.question is None and last.fix is None and last.why


def test_a_suspicion_is_mended_when_all_is_asked() -> None:
    """Suspicions do not stop the walk; they are what is left at its end."""
    found = nbdebug.Result(
        "extreme-batch-size", "found", (nbdebug.Finding("huge", severity="suspect", check="extreme-batch-size"),)
    )
    rest = [nbdebug.Result(check, "clean") for check in registry.load().checks if check != "extreme-batch-size"]
    assert next_step([found]).step is not None
    advice = next_step([found, *rest])
    assert advice.fix is not None and advice.fix.check == "extreme-batch-size"


@pytest.mark.parametrize("name", ["nonsense", 3])
def test_an_unknown_answer_is_refused(name: Any) -> None:
    """An answer to a question that nobody asked is a slip."""
    with pytest.raises(nbdebug.BadInput, match="labels-fit"):
        next_step([], {name: "yes"})


def test_a_suspect_that_explains_a_bug_is_fixed_before_it() -> None:
    """The softmax over the batch is only suspected, and still the cause of the mixing, which is certain."""
    model = nn.Sequential(loops.mlp(), nn.Softmax(dim=0))
    report = examined([check for _, step, _ in order_for() for check in step.checks], model=model, loss_fn=None)
    found = {finding.check: finding.severity for finding in report.alarms}
    assert found["softmax-over-wrong-dim"] == "suspect" and found["batch-mixing"] == "bug"
    advice = next_step(report.results)
    assert advice.fix is not None and advice.fix.check == "softmax-over-wrong-dim"
