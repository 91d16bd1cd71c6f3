"""The wizard without a browser: its steps, its worker, Cancel, and how it gives way to a running cell."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.control import Control
from nbdebug.registry import registry
from nbdebug.session import Session
from nbdebug.widgets.runner import Runner
from tests import loops
from tests.zoo.tabular import digits


def softmaxed() -> dict[str, Any]:
    """Give the model of the quickstart."""
    torch.manual_seed(0)
    return {"model": loops.mlp(nn.Softmax(dim=1)), "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


def wait(wizard: Any, seconds: float = 60) -> None:
    """Wait until the worker has ended."""
    end = time.monotonic() + seconds
    while (wizard.runner.is_busy or wizard.run_step.disabled) and time.monotonic() < end:
        time.sleep(0.02)
    assert not wizard.runner.is_busy and not wizard.run_step.disabled


def state_of(wizard: Any, step: str) -> str:
    """Give what the tree shows for a step."""
    return next(row["state"] for stage in wizard.tree.stages for row in stage["steps"] if row["id"] == step)


def test_a_step_runs_from_its_button() -> None:
    """A click starts a worker; the tree shows what came out, and the model is as before."""
    setup = softmaxed()
    before = [p.detach().clone() for p in setup["model"].parameters()]
    wizard = nbdebug.wizard(**setup)
    wizard.tree.selected = "one-pass"
    assert "one batch" in wizard.question.value
    wizard.run_step.click()
    wait(wizard)
    assert state_of(wizard, "one-pass") == "clean"
    assert not wizard.run_step.disabled and wizard.stop.disabled
    assert all(torch.equal(a, b) for a, b in zip(before, setup["model"].parameters(), strict=True))
    wizard.close()


def test_a_finding_is_shown_and_exported(tmp_path: Any) -> None:
    """What was found stands in the cell and in the exported report."""
    wizard = nbdebug.wizard(**softmaxed())
    step = next(s.id for _, s in wizard._steps() if "softmax-before-cross-entropy" in s.checks)
    wizard.tree.selected = step
    wizard.run_step.click()
    wait(wizard)
    assert state_of(wizard, step) == "found"
    assert "softmax-before-cross-entropy" in wizard.result.value
    wizard.path.value = str(tmp_path / "out.json")
    wizard.save.click()
    assert nbdebug.load(tmp_path / "out.json").findings
    wizard.path.value = str(tmp_path / "out.docx")
    wizard.save.click()
    assert ".html" in wizard.status.value  # a bad ending is said, not raised
    wizard.close()


def test_cancel_stops_a_long_experiment() -> None:
    """Cancel ends the run soon, and the buttons come back."""
    wizard = nbdebug.wizard(**softmaxed())
    wizard.run_all.click()
    time.sleep(0.3)
    assert not wizard.stop.disabled
    wizard.stop.click()
    wait(wizard, 20)
    assert not wizard.run_all.disabled
    wizard.close()


def test_update_marks_results_as_out_of_date() -> None:
    """Another model makes the old results stale, and new runs replace them."""
    wizard = nbdebug.wizard(**softmaxed())
    wizard.tree.selected = "one-pass"
    wizard.run_step.click()
    wait(wizard)
    wizard.update(model=loops.mlp())
    assert state_of(wizard, "one-pass") == "stale"
    with pytest.raises(nbdebug.BadInput):
        wizard.update(model="no model")
    wizard.run_step.click()
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
        assert any(row["id"] == "yours-own" for stage in wizard.tree.stages for row in stage["steps"])
        wizard.tree.selected = "yours-own"
        wizard.run_step.click()
        wait(wizard)
        assert "our-own-rule" in wizard.result.value
        wizard.close()
    finally:
        registry.checks.pop("our-own-rule")


class FakeEvents:
    """The two events of a shell that the runner listens to."""

    def __init__(self) -> None:
        self.functions: dict[str, list[Any]] = {"pre_execute": [], "post_execute": []}

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
    monkeypatch.setattr("nbdebug.widgets.worker._shell", lambda: shell)
    told: list[tuple[str, str]] = []
    session = Session(nbdebug.Subject(**softmaxed()), control=Control())
    runner = Runner(session, lambda state, text: told.append((state, text)))
    state = torch.get_rng_state()
    runner.start(["batch-not-memorised"])
    time.sleep(0.2)
    assert told[-1][0] == "waiting"
    shell.events.fire("post_execute")
    while told[-1][0] != "running":
        time.sleep(0.005)
    shell.events.fire("pre_execute")  # blocks until everything is put back
    assert torch.equal(torch.get_rng_state(), state)
    time.sleep(0.3)
    assert torch.equal(torch.get_rng_state(), state)  # and nothing runs beside the cell
    assert told[-1][0] == "waiting"
    shell.events.fire("post_execute")
    runner.join(60)
    assert session.journal.results[0].status in ("clean", "found")
    runner.close()
    assert not any(shell.events.functions.values())
