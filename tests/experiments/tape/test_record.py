"""The tape reads loss, prediction and target off programs of every shape."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from nbdebug.experiments.tape import override
from nbdebug.sandbox import Sandbox
from tests.experiments.tape.programs import LossAttribute, Net, OwnLoss, X, Y, computed, in_a_step, sandbox_of, tape_of

SHAPES: dict[str, Any] = {
    "pairs": lambda: sandbox_of(loss_fn=nn.CrossEntropyLoss()),
    "assumed loss": lambda: sandbox_of(),
    "compute_loss": lambda: computed(lambda model, x, y: F.cross_entropy(model(x), y)),
    "tuple with the loss": lambda: computed(lambda model, x, y: model(x, y)[1], OwnLoss()),
    "object with the loss": lambda: sandbox_of(LossAttribute(), batch={"x": X, "wanted": Y}),
    "train_step": lambda: sandbox_of(loss_fn=nn.CrossEntropyLoss(), train_step=in_a_step),
}


@pytest.fixture(params=SHAPES.values(), ids=SHAPES.keys())
def sandbox(request: Any) -> Sandbox:
    """One program in each of its shapes."""
    made: Sandbox = request.param()
    return made


def logits_of(sandbox: Sandbox) -> torch.Tensor:
    """Return what the two layers give, computed apart."""
    model: Any = sandbox.model
    with torch.no_grad():
        logits: torch.Tensor = model.head(model.body(X).relu())
    return logits


def test_prediction_target_and_loss_are_read(sandbox: Sandbox) -> None:
    tape, logits = tape_of(sandbox), logits_of(sandbox)
    assert torch.equal(tape.prediction.value, logits)
    assert tape.prediction.module == "head" and tape.prediction.made_by == "linear"
    assert tape.target is not None and torch.equal(tape.target.value, Y)
    assert tape.target.sources in (("batch[1]",), ("wanted",))
    assert tape.loss == pytest.approx(float(F.cross_entropy(logits, Y)))
    assert tape.loss_name == "cross_entropy" and len(tape.terms) == 1


def test_replay_and_override_agree(sandbox: Sandbox) -> None:
    tape, new = tape_of(sandbox), torch.randn(12, 3)
    expected = F.cross_entropy(new, Y)
    assert tape.replay_error < 1e-6
    assert float(tape.replay(new)) == pytest.approx(float(expected))
    outcome = override(sandbox, sandbox.batch(), tape, {tape.prediction.number: new}, gradient=True)
    assert outcome.loss == pytest.approx(float(expected))
    leaf = new.clone().requires_grad_()
    F.cross_entropy(leaf, Y).backward()
    assert outcome.gradient is not None and leaf.grad is not None
    torch.testing.assert_close(outcome.gradient, leaf.grad)


def test_override_with_its_own_values_changes_nothing(sandbox: Sandbox) -> None:
    tape = tape_of(sandbox)
    again = override(sandbox, sandbox.batch(), tape, {tape.prediction.number: tape.prediction.value}, gradient=True)
    assert again.loss == tape.loss
    assert again.gradient is not None
    torch.testing.assert_close(again.gradient, tape.gradient())


def test_a_prediction_of_another_shape_is_refused() -> None:
    tape = tape_of(sandbox_of(Net(), nn.CrossEntropyLoss()))
    with pytest.raises(ValueError, match="has shape"):
        tape.replay(torch.zeros(2, 3))
