"""What the recorded run of a program tells, in plain numbers and names."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from nbdebug.engine.session import Session
from nbdebug.errors import NotApplicable
from nbdebug.evidence import TapedPass
from nbdebug.setup import Setup
from tests.experiments.tape.programs import Net, OwnLoss, X, Y, in_a_step
from tests.zoo import odd_physics, own_losses


def taped(model: nn.Module | None = None, loss_fn: Any = None, batch: Any = (X, Y), **parts: Any) -> TapedPass:
    """Record a small program."""
    model = model if model is not None else Net()
    setup = Setup(model, [batch], loss_fn, torch.optim.SGD(model.parameters(), 0.1), **parts)
    found: TapedPass = Session(setup).measure(TapedPass)
    return found


def test_a_plain_program() -> None:
    model = Net()
    found = taped(model, nn.CrossEntropyLoss())
    assert found.program == "loss_fn" and found.loss_name == "cross_entropy"
    assert found.loss == pytest.approx(float(F.cross_entropy(model(X), Y).detach()))
    assert found.prediction_shape == (12, 3) and found.prediction_module == "head" and found.heads == ("head",)
    assert found.prediction_op == "linear" and found.target_keys == ("batch[1]",) and found.target_shape == (12,)
    assert (found.exchanged_by, found.reason, found.is_random) == ("replay", "", False)
    assert [term.share for term in found.terms] == [1.0]


def bare(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """A step that alone knows how the batch is used."""
    return in_a_step(model, (batch["a"] - batch["b"], batch["kind"]), F.cross_entropy, optimizer)


PROGRAMS: dict[str, Any] = {
    "train_step": lambda: taped(batch={"a": X, "b": 0 * X, "kind": Y}, train_step=bare),
    "compute_loss": lambda: taped(compute_loss=lambda model, batch, _: F.cross_entropy(model(batch[0]), batch[1])),
    "model": lambda: taped(OwnLoss(), compute_loss=lambda model, batch, _: model(*batch)[1]),
}


@pytest.mark.parametrize("make", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_other_shapes_of_program(make: Any) -> None:
    found = make()
    assert found.loss_name == "cross_entropy" and found.prediction_shape == (12, 3)
    assert found.target_keys in (("kind",), ("batch[1]",)) and found.exchanged_by == "replay"


def test_terms_have_their_values_and_shares() -> None:
    def two_terms(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        scores = model(batch[0])
        return 0.5 * F.cross_entropy(scores, batch[1]) - 2 * scores.square().mean() / 4

    model = Net()
    found = taped(model, compute_loss=two_terms)
    scores = model(X).detach()
    expected = [0.5 * float(F.cross_entropy(scores, Y)), -0.5 * float(scores.square().mean())]
    assert [term.value for term in found.terms] == pytest.approx(expected)
    assert sum(term.value for term in found.terms) == pytest.approx(found.loss)
    assert sum(term.share for term in found.terms) == pytest.approx(1.0)
    assert [term.is_main for term in found.terms] == [True, False]
    assert found.terms[0].compared_by == "cross_entropy" and found.terms[0].target_keys == ("batch[1]",)


def test_dropout_makes_it_random() -> None:
    assert taped(nn.Sequential(nn.Linear(5, 8), nn.Dropout(), nn.Linear(8, 3)), nn.CrossEntropyLoss()).is_random


def test_an_override_takes_over_where_a_replay_is_refused() -> None:
    found: TapedPass = Session(Setup(**odd_physics.oscillator_from_its_equation())).measure(TapedPass)
    assert found.exchanged_by == "override" and "autograd.grad" in found.reason and found.loss_name == ""


def test_a_shifted_target_is_read_as_the_loss_receives_it() -> None:
    found: TapedPass = Session(Setup(**own_losses.labeled_gpt())).measure(TapedPass)
    assert (
        found.target_keys == ("labels",) and found.prediction_shape[0] == 32 * 15 and found.target_shape == (32 * 15,)
    )


def test_what_cannot_be_read_is_skipped_with_the_reason() -> None:
    with pytest.raises(NotApplicable, match="has no gradient"):
        taped(compute_loss=lambda model, batch, _: (model(batch[0]).argmax(1) != batch[1]).float().mean())
