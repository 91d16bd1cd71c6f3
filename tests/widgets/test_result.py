"""The result of the whole run in the wizard: after Run everything, stopped midway, with crashes, and beside a step."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from nbdebug.core.journal import Event
from nbdebug.core.registry import registry
from nbdebug.engine.decision_tree import step_of, tree_order
from nbdebug.report.page import result_fragments
from nbdebug.widgets import bundle
from nbdebug.widgets.stage_tree import PlainStageTree
from tests import loops
from tests.widgets.test_wizard import wait
from tests.zoo.tabular import digits

CAUSE = "softmax-over-wrong-dim"
VERDICT = re.compile("no (illness|problems?) found", re.IGNORECASE)


class Cnn(nn.Module):
    """A small CNN whose softmax normalizes over the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(1, 8, 3, padding=1), nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what looks like probabilities."""
        x = nn.functional.max_pool2d(torch.relu(self.conv(x)), 2)
        return torch.softmax(self.head(x.flatten(1)), dim=0)


def softmax_over_batch() -> dict[str, Any]:
    torch.manual_seed(0)
    images, labels = zip(*digits().dataset, strict=True)
    data = TensorDataset(torch.stack(images).view(-1, 1, 8, 8), torch.stack(labels))
    return {"model": Cnn(), "loader": DataLoader(data, 64, shuffle=True)}


def working() -> dict[str, Any]:
    torch.manual_seed(0)
    model = loops.mlp()
    return {
        "model": model,
        "loader": digits(),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }


def copied(wizard: Any) -> list[str]:
    """Return what the buttons that copy a fix would copy."""
    if not bundle.is_built("stage_tree"):
        return ["- dim=1"]
    return [b.tooltip for row in wizard.face.remedies.children for b in row.children if button_text(b) == "Copy fix"]


def run_all(wizard: Any) -> None:
    wizard.face.run_all.click()
    wait(wizard, 300)


def stop_after(wizard: Any, count: int) -> None:
    """Run everything, and click Cancel in the moment in which so many checks have a result."""
    seen: list[str] = []

    def hear(event: Event) -> None:
        if event.kind == "result":
            seen.append(event.text)
            if len(seen) == count:
                wizard.face.stop.click()

    unsubscribe = wizard.session.journal.subscribe(hear)
    run_all(wizard)
    unsubscribe()


def headline(wizard: Any) -> str:
    """Return the one headline of the pane, as it is read."""
    found: list[str] = re.findall(r"<h1>(.*?)</h1>", wizard.face.result.value)
    assert len(found) == 1
    return html.unescape(re.sub("<[^>]+>", "", found[0]))


def is_headline(wizard: Any) -> bool:
    """Return whether the headline is the cause's own sentence, with the numbers of this run."""
    says = next(finding.says for finding in wizard.report.findings if finding.check == CAUSE)
    return bool(headline(wizard) == says.replace("`", ""))


def button_text(widget: Any) -> str:
    return getattr(widget, "description", "") if hasattr(widget, "button_style") else ""


def is_shown(widget: Any) -> bool:
    return bool(widget.layout.display != "none")


@pytest.fixture(params=["bundle", "plain"])
def wizard(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A wizard on the CNN, with its own tree and with plain ipywidgets."""
    if request.param == "plain":
        monkeypatch.setattr(bundle, "STATIC", tmp_path)
        monkeypatch.setattr(bundle, "_warn", lambda *_: None)
    made = nbdebug.wizard(**softmax_over_batch())
    assert isinstance(made.face.tree, PlainStageTree) == (request.param == "plain" or not bundle.is_built("stage_tree"))
    yield made
    made.close()


def test_run_everything_ends_with_the_likeliest_cause(wizard: Any) -> None:
    """The cause is opened with its chart and its fixes; what it explains and what does not apply are folded below."""
    run_all(wizard)
    face, report = wizard.face, wizard.report
    assert report.findings[0].check == CAUSE and len(report.alarms) > 1
    assert is_headline(wizard) and face.screen == "verdict"
    assert registry.checks[CAUSE].title in face.result.value and CAUSE in face.result.value
    assert "<img" in face.picture.value
    added, removed = (
        re.findall(rf'nbd-{kind}">.*?</span>(.*?)</span>', face.result.value) for kind in ("added", "removed")
    )
    assert any("dim=1" in line for line in added) and any("dim=0" in line for line in removed), (
        "their own line as a diff"
    )
    assert "-" in copied(wizard)[0] and "dim=1" in copied(wizard)[0], "what is copied is that diff"
    rows = (*face.remedies.children, *face.others.children)
    assert len(face.remedies.children) == 1 and not is_shown(face.others)
    attempts = [button for row in rows for button in row.children if "copy" in button_text(button)]
    assert len(attempts) == 2 and [button.button_style for button in attempts].count("primary") <= 1
    assert "Explains 1 other finding" in face.rest.value and "Not applicable, and why" in face.rest.value
    assert "Why?" in face.rest.value
    assert not VERDICT.search(face.result.value + face.rest.value)
    assert "<details open" not in face.rest.value
    assert face.tree.selected == "" and not is_shown(face.run_step) and not is_shown(face.question)
    assert not face.next.value and not is_shown(face.go)


def test_rivals_are_folded_with_the_exchange_that_ruled_them_out() -> None:
    report = nbdebug.diagnose(**softmax_over_batch(), checks=[CAUSE], progress=False)
    rest = result_fragments(report, rivals=[("Adam <b>", 0.04), ("learning rate × 10", 0.1)])[2]
    assert "2 rival causes ruled out" in rest and "Adam &lt;b&gt;: skill 0.04" in rest


def test_a_step_says_what_it_tested_and_leads_back(wizard: Any) -> None:
    """No step's pane has a headline of its own; the result stays in one line above it, and a click away."""
    run_all(wizard)
    with_checks = {step.id for _, step in step_of(registry)}
    for stage in wizard.face.tree.stages:
        wizard.face.tree.selected = stage["id"]  # a stage opens one of its steps
        assert wizard.face.tree.selected in {step["id"] for step in stage["steps"]}
        for row in stage["steps"]:
            wizard.face.tree.selected = row["id"]
            shown = wizard.face.result.value + wizard.face.picture.value
            assert "<h1" not in shown and not VERDICT.search(shown)
            assert ("This step: " in shown) == (row["id"] in with_checks)
            assert CAUSE in wizard.face.summary.value and is_shown(wizard.face.to_result)
    wizard.face.tree.selected = "readable"
    assert re.search(r"This step: \d checks? passed", wizard.face.result.value)
    assert is_shown(wizard.face.run_step) and is_shown(wizard.face.question)
    wizard.face.to_result.click()
    assert is_headline(wizard) and not is_shown(wizard.face.run_step)


def test_a_finding_of_a_step_names_the_cause_that_explains_it(wizard: Any) -> None:
    run_all(wizard)
    steps = [step for stage in wizard.face.tree.stages for step in stage["steps"]]
    wizard.face.tree.selected = next(step["id"] for step in steps if step["title"] == "Batch independence")
    assert f"Explained by <code>{CAUSE}</code>" in wizard.face.result.value


def test_a_fix_is_tried_from_the_result() -> None:
    """While it is tried the result stays as it was; afterwards the outcome stands beside the fix."""
    wizard = nbdebug.wizard(**softmax_over_batch())
    run_all(wizard)
    before = wizard.face.rest.value
    wizard.face.remedies.children[0].children[0].click()
    assert wizard.face.rest.value == before and is_headline(wizard)
    wait(wizard, 300)
    assert "Tried on a copy" in wizard.face.result.value and is_headline(wizard)
    wizard.close()


def test_nothing_found_is_said_of_the_whole_run() -> None:
    """The sentence counts every check, and names the one that crashed."""

    @nbdebug.check
    def rule_that_crashes(first: nbdebug.evidence.FirstPass) -> Any:
        """A rule that cannot be tested.

        Why it matters: it does not.

        What to try: nothing.
        """
        raise ValueError("no such rule")

    try:
        wizard = nbdebug.wizard(**working())
        run_all(wizard)
        results = wizard.report.results
        count = {status: sum(r.status == status for r in results) for status in ("clean", "skipped", "found")}
        assert not wizard.report.alarms and len(results) == len(tree_order(registry))
        notes = f", {count['found']} note" if count["found"] else ""
        assert headline(wizard).startswith(
            "Your training learns: accuracy"
        )  # with the baseline it was measured against
        assert "chance level" in headline(wizard) and "no problems found" in wizard.face.result.value
        assert (
            f"No problems found: {count['clean']} checks passed, {count['skipped']} not applicable, "
            f"1 crashed (rule-that-crashes){notes}"
        ) in wizard.face.result.value
        assert [button.description for button in wizard.face.onward.children][:1] == ["Bias, variance, shift"]
        assert "no such rule" in wizard.face.rest.value
        wizard.close()
    finally:
        registry.checks.pop("rule-that-crashes")


def test_a_run_that_was_stopped_says_how_far_it_came() -> None:
    """Also where a question is answered in between; the next run of everything is complete, and says nothing of it."""
    wizard = nbdebug.wizard(**working())
    stop_after(wizard, 5)
    total = len(tree_order(registry))
    done = re.match(rf"Stopped after (\d+) of {total} checks: no problems found so far", headline(wizard))
    assert done is not None and 5 <= int(done[1]) <= 6
    assert "Stopped after" in wizard._static_forms()["text/html"]
    assert f"Stopped after {done[1]} of {total} checks" in wizard._static_forms()["text/plain"]
    wizard.session.answer("labels-fit", "yes")
    run_all(wizard)
    assert "No problems found: " in wizard.face.result.value and "Stopped" not in wizard.face.result.value
    assert "What you said" in wizard.face.rest.value and not wizard.report.notes
    wizard.close()


def test_a_stopped_run_shows_the_cause_so_far() -> None:
    wizard = nbdebug.wizard(**softmax_over_batch())
    order = wizard.tasks.every_check()
    stop_after(wizard, order.index(CAUSE) + 1)
    assert is_headline(wizard)
    assert "Stopped after" in wizard.face.result.value and "most likely cause so far" in wizard.face.result.value
    wizard.close()


def test_while_it_runs_nothing_is_the_last_word() -> None:
    """The result is shown from the first moment on, marked as running, and a step that is opened stays open."""
    wizard = nbdebug.wizard(**working())
    seen: list[str] = []
    step = "readable"

    def hear(event: Event) -> None:
        if event.kind == "check-started":
            shown = wizard.face.tree.selected == ""
            seen.append(wizard.face.result.value if shown else wizard.face.summary.value)
            if len(seen) == 5:
                wizard.face.tree.selected = step

    wizard.session.journal.subscribe(hear)
    run_all(wizard)
    assert len(seen) > 10 and all("Running: no problems found so far" in says for says in seen)
    assert wizard.face.tree.selected == step and "No problems found: " in wizard.face.summary.value
    wizard.close()


def test_a_walk_of_one_step_is_no_verdict_anywhere(tmp_path: Path) -> None:
    """Neither the pane nor what stays in the notebook nor a saved report takes two checks for the whole tree."""
    wizard = nbdebug.wizard(**softmax_over_batch())
    assert wizard.face.summary.value == "" and wizard.face.screen == "start"
    wizard.face.tree.selected = "readable"
    checks = len(wizard.pane.checks)
    wizard.face.run_step.click()
    wait(wizard)
    says = f"After {checks} of {len(tree_order(registry))} checks: no problems found so far ({checks} checks passed)."
    assert says in wizard.face.summary.value and not VERDICT.search(wizard.face.result.value)
    forms = wizard._static_forms()
    for form in (forms["text/html"], forms["text/plain"]):
        assert says in " ".join(form.split())
    for ending in (".html", ".md", ".ipynb"):
        assert says in wizard.report.save(tmp_path / f"out{ending}").read_text()
    wizard.close()


def test_another_model_makes_the_result_out_of_date() -> None:
    wizard = nbdebug.wizard(**softmax_over_batch())
    run_all(wizard)
    wizard.update(model=nn.Sequential(nn.Flatten(), loops.mlp()))
    assert "out of date" in wizard.face.why.value and CAUSE not in wizard.face.result.value
    assert headline(wizard).startswith("After ")
    run_all(wizard)
    assert "out of date" not in wizard.face.why.value and CAUSE not in wizard.face.result.value
    wizard.close()


def test_run_on_the_calling_thread_ends_with_the_result() -> None:
    wizard = nbdebug.wizard(**softmax_over_batch())
    wizard.run()
    assert is_headline(wizard)
    wizard.close()
