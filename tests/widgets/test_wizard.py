"""The wizard without a browser: its steps, its worker, Cancel, and how it gives way to a running cell."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import ipywidgets as widgets
import pytest
import torch
from ipywidgets.widgets.widget import _instances
from torch import nn

import nbdebug
from nbdebug.core.control import Control
from nbdebug.core.finding import Finding
from nbdebug.core.registry import registry
from nbdebug.core.remedy import Remedy
from nbdebug.engine.decision_tree import step_of
from nbdebug.engine.session import Session
from nbdebug.widgets import bundle
from nbdebug.widgets.fixes_panel import fix_rows, trials_of
from nbdebug.widgets.runner import Runner
from tests import loops
from tests.zoo.tabular import digits


def softmaxed() -> dict[str, Any]:
    """Return the model of the quickstart."""
    torch.manual_seed(0)
    return {"model": loops.mlp(nn.Softmax(dim=1)), "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


def until(holds: Callable[[], Any], seconds: float = 60) -> None:
    """Wait for an event; the time is only there to end a test that fails."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.005)


def wait(wizard: Any, seconds: float = 60) -> None:
    """Wait until the worker has ended."""
    end = time.monotonic() + seconds
    while (wizard.runner.is_busy or wizard.face.run_step.disabled) and time.monotonic() < end:
        time.sleep(0.02)
    assert not wizard.runner.is_busy and not wizard.face.run_step.disabled


def state_of(wizard: Any, step: str) -> str:
    """Return what the tree shows for a step."""
    return next(row["state"] for stage in wizard.face.tree.stages for row in stage["steps"] if row["id"] == step)


def test_a_step_runs_from_its_button() -> None:
    """A click starts a worker; the tree shows what came out, and the model is as before."""
    setup = softmaxed()
    before = [p.detach().clone() for p in setup["model"].parameters()]
    wizard = nbdebug.wizard(**setup)
    wizard.face.tree.selected = "one-pass"
    assert "First pass: does one batch run" in wizard.face.question.value and wizard.face.screen == "step"
    assert "On a copy:" in wizard.face.why.value and "Source: FSDL" in wizard.face.why.value
    wizard.face.run_step.click()
    wait(wizard)
    assert state_of(wizard, "one-pass") == "clean"
    assert not wizard.face.run_step.disabled and wizard.face.stop.disabled
    assert all(torch.equal(a, b) for a, b in zip(before, setup["model"].parameters(), strict=True))
    wizard.close()


def test_a_finding_is_shown_and_exported(tmp_path: Any) -> None:
    """What was found stands in the cell and in the exported report."""
    wizard = nbdebug.wizard(**softmaxed())
    step = next(s.id for _, s in step_of(registry) if "softmax-before-cross-entropy" in s.checks)
    wizard.face.tree.selected = step
    wizard.face.run_step.click()
    wait(wizard)
    assert state_of(wizard, step) == "found"
    assert "softmax-before-cross-entropy" in wizard.face.result.value
    wizard.face.path.value = str(tmp_path / "out.json")
    wizard.face.save.click()
    assert nbdebug.load(tmp_path / "out.json").findings
    wizard.face.path.value = str(tmp_path / "out.docx")
    wizard.face.save.click()
    assert ".html" in wizard.face.status.value  # a bad ending is said, not raised
    wizard.close()


def test_cancel_stops_a_long_experiment() -> None:
    """Cancel ends the run soon, and the buttons come back."""
    wizard = nbdebug.wizard(**softmaxed())
    wizard.face.run_all.click()
    until(lambda: not wizard.face.stop.disabled)
    wizard.face.stop.click()
    wait(wizard)
    assert not wizard.face.run_all.disabled
    wizard.close()


def test_update_marks_results_as_out_of_date() -> None:
    """Another model makes the old results stale, and new runs replace them."""
    wizard = nbdebug.wizard(**softmaxed())
    wizard.face.tree.selected = "one-pass"
    wizard.face.run_step.click()
    wait(wizard)
    wizard.update(model=loops.mlp())
    assert state_of(wizard, "one-pass") == "stale"
    with pytest.raises(nbdebug.BadInput):
        wizard.update(model="no model")
    wizard.face.run_step.click()
    wait(wizard)
    assert state_of(wizard, "one-pass") == "clean"
    wizard.close()


def test_own_checks_show_in_the_tree() -> None:
    """A check that was just defined stands in the wizard at once."""

    @nbdebug.check
    def our_own_rule(first: nbdebug.evidence.FirstPass) -> Any:
        """The model breaks a rule of ours.

        Why it matters: we have agreed on it.

        What to try: keep to it.
        """
        yield nbdebug.Finding(f"The loss is {first.loss:.2f}.", where="model", severity="note")

    try:
        wizard = nbdebug.wizard(**softmaxed())
        assert any(row["id"] == "yours-own" for stage in wizard.face.tree.stages for row in stage["steps"])
        wizard.face.tree.selected = "yours-own"
        wizard.face.run_step.click()
        wait(wizard)
        assert "our-own-rule" in wizard.face.result.value
        wizard.close()
    finally:
        registry.checks.pop("our-own-rule")


def loss_step() -> str:
    """Return the step that finds the softmax."""
    return next(s.id for _, s in step_of(registry) if "softmax-before-cross-entropy" in s.checks)


def test_a_remedy_is_tried_on_a_copy(tmp_path: Any) -> None:
    """The button trains a patched copy against the other; the verdict is shown and exported, the model is as before."""
    setup = softmaxed()
    before = [p.detach().clone() for p in setup["model"].parameters()]
    wizard = nbdebug.wizard(**setup)
    wizard.face.tree.selected = loss_step()
    wizard.face.run_step.click()
    wait(wizard)
    assert len(wizard.face.remedies.children) >= 1
    wizard.face.remedies.children[0].children[0].click()
    assert wizard.face.run_step.disabled
    wait(wizard, 120)
    assert "verified: " in wizard.face.status.value
    assert all(torch.equal(a, b) for a, b in zip(before, setup["model"].parameters(), strict=True))
    assert wizard.report.findings[0].verifications[0].verified
    wizard.face.path.value = str(tmp_path / "out.json")
    wizard.face.save.click()
    assert nbdebug.load(tmp_path / "out.json").findings[0].verifications[0].verified
    wizard.close()


def test_the_symptom_decides_where_to_begin() -> None:
    """Another complaint leads to another order, which is said with its reason, and the report keeps it."""
    wizard = nbdebug.wizard(**softmaxed())
    begun, order = wizard.pane.recommended(), wizard.tasks.every_check()
    assert len(wizard.face.symptom.options) == 6
    wizard.face.symptom.value = next(value for words, value in wizard.face.symptom.options if "NaN" in words)
    assert wizard.pane.recommended() != begun and wizard.tasks.every_check() != order
    assert sorted(wizard.tasks.every_check()) == sorted(order)
    assert "Input values" in wizard.face.plan.value and "NaN in the inputs propagates" in wizard.face.plan.value
    assert "NaN" in nbdebug.engine.decision_tree.find_symptom(wizard.report.symptom).words
    wizard.face.go.click()
    assert wizard.face.tree.selected == wizard.pane.recommended() and wizard.face.screen == "step"
    wizard.face.no_symptom.click()
    assert wizard.report.symptom == "" and wizard.tasks.every_check() == order
    wizard.close()


def test_skipping_goes_on_to_the_next_step() -> None:
    """A skipped step is shown as skipped, with the reason, and the next one is chosen."""
    wizard = nbdebug.wizard(**softmaxed())
    wizard.face.tree.selected = first = "readable"
    wizard.face.skip.click()
    assert state_of(wizard, first) == "skipped" and wizard.face.tree.selected == "values"
    assert all(result.reason == "you skipped it" for result in wizard.report.results)
    assert "Next:" in wizard.face.next.value
    wizard.close()


def test_thresholds_can_be_changed() -> None:
    """Another number makes the result out of date, and is in force when the step runs again."""
    wizard = nbdebug.wizard(**softmaxed())
    step = next(s.id for _, s in step_of(registry) if "initial-loss-off" in s.checks)
    wizard.face.tree.selected = step
    rows = wizard.face.thresholds.children[0].children
    row = next(row for row in rows if "initial-loss-off" in row.children[1].value)
    row.children[0].value = 1234
    assert 1234 in wizard.session.thresholds["initial-loss-off"].values()
    wizard.close()


def test_answers_are_kept_and_followed(tmp_path: Any) -> None:
    """What a person says is in the report; what is no answer is refused in words; an answer can be taken back."""
    wizard = nbdebug.wizard(**softmaxed())
    asked = {q.after: q for q in nbdebug.engine.decision_tree.questions() if q.kind == "yes/no" and q.after}
    step = next(s.id for _, s in step_of(registry) if s.id in asked)
    wizard.face.tree.selected = step
    panel = wizard.face.questions.children[0]
    places = [q.id for q in nbdebug.engine.decision_tree.questions() if q.after == step]
    field = panel.children[places.index(asked[step].id)].children[1]
    field.value = "no"
    assert wizard.report.answers == {asked[step].id: "no"}
    assert panel.children[places.index(asked[step].id)].children[2].value  # what follows from it
    field.value = ""
    assert wizard.report.answers == {}
    wizard.close()


def test_another_model_keeps_what_was_said_of_the_data() -> None:
    """Only results that the model has a part in are out of date."""
    wizard = nbdebug.wizard(**softmaxed())
    wizard.session.run(["unshuffled-loader", "forward-fails"])
    wizard.session.journal.answer("labels-fit", "yes")
    wizard.update(model=loops.mlp())
    assert {r.check: r.status for r in wizard.session.journal.results} == {"unshuffled-loader": "clean"}
    assert wizard.session.journal.answers == {"labels-fit": "yes"} and "forward-fails" in wizard._stale
    wizard.update(loader=digits())
    assert not wizard.session.journal.results
    wizard.close()


class FakeEvents:
    """The two events of a shell that the runner listens to."""

    def __init__(self) -> None:
        self.functions: dict[str, list[Any]] = {"pre_run_cell": [], "post_run_cell": []}

    def register(self, event: str, function: Any) -> None:
        """Keep a function."""
        self.functions[event].append(function)

    def unregister(self, event: str, function: Any) -> None:
        """Drop a function."""
        self.functions[event].remove(function)

    def fire(self, event: str) -> None:
        """Call them all, as a shell does around a cell."""
        for function in list(self.functions[event]):
            function()


def test_waits_for_a_cell_and_gives_way_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing runs beside a cell; what a cell interrupts starts again after it."""
    shell = type("Shell", (), {"events": FakeEvents()})()
    monkeypatch.setattr("nbdebug.widgets.worker.running_shell", lambda: shell)
    told: list[tuple[str, str]] = []
    session = Session(nbdebug.Setup(**softmaxed()), control=Control())
    runner = Runner(session, lambda state, text: told.append((state, text)))
    state = torch.get_rng_state()
    runner.start(["cannot-overfit-batch"])
    until(lambda: told and told[-1][0] == "waiting")
    shell.events.fire("post_run_cell")
    until(lambda: told[-1][0] == "running")
    shell.events.fire("pre_run_cell")  # blocks until everything is put back
    assert torch.equal(torch.get_rng_state(), state)
    time.sleep(0.3)
    assert torch.equal(torch.get_rng_state(), state)  # and nothing runs beside the cell
    assert told[-1][0] == "waiting"
    shell.events.fire("post_run_cell")
    runner.join(60)
    assert session.journal.results[0].status in ("clean", "found")
    assert not session.journal.notes  # it only gave way, which is not to have been stopped
    runner.close()
    assert not any(shell.events.functions.values())


def hasty_and_frozen() -> dict[str, Any]:
    """Return a set-up with two suspects: a rate far too high, and a layer that is frozen."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    model[2].weight.requires_grad_(False)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=30.0)
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


def test_two_causes_are_told_apart_by_the_cheapest_experiment() -> None:
    """Where two causes are left, the wizard offers one experiment at a time, says its cost, and shows what it told."""
    wizard = nbdebug.wizard(**hasty_and_frozen())
    assert wizard.face._doubts.layout.display == "none"
    wizard.session.run(["frozen-parameters", "learning-rate-too-high", "cannot-overfit-batch", "update-ratio-off"])
    wizard._refresh()
    assert len(wizard.pane.experiments()) == 1 and wizard.face._doubts.layout.display == ""
    assert "find the root cause" in wizard.face.doubt.value and " s)" in wizard.face.doubt.value
    told: list[str] = []
    wizard.session.journal.subscribe(lambda event: told.append(event.kind))
    listener = wizard.session.control.on_progress
    for _ in range(3):  # at most one a suspect
        if not wizard.pane.experiments():
            break
        wizard.face.apart.click()
        wait(wizard, 120)
        assert "Root cause experiment on copies" in wizard.face.status.value
    assert not wizard.pane.experiments()
    assert "progress" in told and wizard.session.control.on_progress == listener  # inner sessions took nothing over
    assert wizard.report.findings[0].check == "learning-rate-too-high"
    assert wizard.face._doubts.layout.display == "none"
    wizard.close()


def test_what_stays_in_the_notebook_says_what_was_found() -> None:
    """Before anything ran it says so; afterwards the finding is in it."""
    wizard = nbdebug.wizard(**softmaxed())
    assert "nothing was run" in wizard._static_forms()["text/html"]
    wizard.session.run(["softmax-before-cross-entropy"])
    forms = wizard._static_forms()
    assert "softmax-before-cross-entropy" in forms["text/html"] and "<script" not in forms["text/html"]
    assert "softmax-before-cross-entropy" in forms["text/plain"]
    wizard.close()


def test_no_model_of_a_widget_is_left() -> None:
    """Steps that are looked at one after the other leave nothing in the kernel, and neither does the closed wizard."""
    before = len(_instances)
    wizard = nbdebug.wizard(**softmaxed())
    steps = [step["id"] for stage in wizard.face.tree.stages for step in stage["steps"]]
    counts = []
    for _ in range(2):
        for step in steps:
            wizard.face.tree.selected = step
        counts.append(len(_instances))
    assert counts[1] == counts[0] > before
    wizard.close()
    assert len(_instances) == before


def test_the_first_fix_of_each_check_is_in_sight() -> None:
    """Alternatives are folded; a fix of another check's finding in the same step is not."""
    fixes = tuple(Remedy(f"{name} it.", f"{name}()") for name in ("drop", "replace"))
    findings = [Finding("So.", check=check, where="0", severity="bug", remedies=fixes) for check in "aab"]
    trials = trials_of(findings, lambda finding, number: None)
    assert [trial.heads for trial in trials] == ["a", "", "", "", "b", ""]
    first, others, tries = fix_rows(trials, lambda button, act: None, disabled=False, beside=[widgets.HTML()])
    assert not tries and bundle.is_built("stage_tree") == bool(others)
    if bundle.is_built("stage_tree"):
        assert len(first) == 2 and len(others) == 4
        assert "For <code>b</code>" in first[1].children[-1].value
