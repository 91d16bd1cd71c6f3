"""The last stage of the wizard: the decomposition of the error, from its button to its table and bar."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import nbdebug
from tests.improve.digits import loader_of, network, pixels, trained
from tests.widgets.test_wizard import state_of, wait


def overfitted() -> dict[str, Any]:
    """Return a model that knows its 60 samples by heart, and validation data that it never saw."""
    x, y = pixels()
    train, val = loader_of(x[:60], y[:60]), loader_of(x[300:900], y[300:900])
    model = trained(network(256), x[:60], y[:60])
    return {"model": model, "loader": train, "loss_fn": nn.CrossEntropyLoss(), "val_loader": val}


def test_the_button_splits_the_error() -> None:
    """The table, the bar and the advice stand in the cell; the target error is what the user named."""
    setup = overfitted()
    before = [p.detach().clone() for p in setup["model"].parameters()]
    wizard = nbdebug.wizard(**setup)
    wizard.face.tree.selected = "error-parts"
    assert "Bias, variance, shift" in wizard.face.question.value and wizard.face.result.value == ""
    wizard.session.answer("target-error", 0.01)
    assert state_of(wizard, "error-parts") == "not-run"
    wizard.face.run_step.click()
    wait(wizard)
    assert state_of(wizard, "error-parts") == "clean"
    shown = wizard.face.result.value
    assert "data:image/svg+xml" in shown and "avoidable bias" in shown and "Get more training data" in shown
    result = wizard.improving.result
    assert result is not None and result.advice[0].part == "variance"
    assert result.part("irreducible error").value == 0.01
    assert all(torch.equal(a, b) for a, b in zip(before, setup["model"].parameters(), strict=True))
    wizard.face.tree.selected = "one-pass"
    assert "avoidable bias" not in wizard.face.result.value
    wizard.update(model=network())  # what was measured on another model is gone
    assert state_of(wizard, "error-parts") == "not-run"
    wizard.close()


def test_without_validation_data_it_says_what_to_pass() -> None:
    setup = overfitted()
    del setup["val_loader"]
    wizard = nbdebug.wizard(**setup)
    wizard.face.tree.selected = "error-parts"
    assert wizard.pane.jobs == () and wizard.face.run_step.layout.display == "none"
    assert "val_loader" in wizard.face.result.value
    wizard.update(val_loader=setup["loader"])
    assert wizard.pane.jobs and wizard.face.run_step.layout.display != "none"
    assert "val_loader" not in wizard.face.result.value
    wizard.close()


def test_what_cannot_be_judged_is_said() -> None:
    """Outputs that fit no usual task end with the reason in the cell, and the buttons come back."""
    x, y = pixels()
    pairs = loader_of(x, torch.stack([y, y], 1))
    wizard = nbdebug.wizard(nn.Linear(64, 3), pairs, val_loader=pairs)
    wizard.face.tree.selected = "error-parts"
    wizard.face.run_step.click()
    wait(wizard)
    assert "metric" in wizard.face.status.value and state_of(wizard, "error-parts") == "not-run"
    wizard.close()
