"""Accuracy and explained variance are measured for programs of every shape, from what the loss itself receives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from nbdebug.experiments.learning_curve import Fit
from nbdebug.experiments.skill import skill_of
from nbdebug.experiments.tape import fit_on_tape
from nbdebug.sandbox import Sandbox
from tests.experiments.tape.programs import Net, OwnLoss, X, Y, computed, in_a_step, sandbox_of

VALUES = X.sum(1, keepdim=True)
BINARY = (X[:, :1] > 0).float()


def fit(sandbox: Sandbox) -> Fit:
    """Measure the first batch."""
    found = fit_on_tape(sandbox, sandbox.batch())
    assert found is not None
    return found


def share_right(sandbox: Sandbox) -> float:
    """Return the accuracy of the two layers, computed apart."""
    model: Any = sandbox.model
    return float((model.head(model.body(X).relu()).argmax(1) == Y).double().mean())


CLASSIFIERS: dict[str, Any] = {
    "loss_fn": lambda: sandbox_of(loss_fn=nn.CrossEntropyLoss()),
    "own loss": lambda: computed(lambda model, x, y: model(x, y)[1], OwnLoss()),
    "train_step": lambda: sandbox_of(loss_fn=nn.CrossEntropyLoss(), train_step=in_a_step),
    "log_softmax": lambda: computed(lambda model, x, y: F.nll_loss(model(x).log_softmax(1), y)),
    "gather": lambda: computed(lambda model, x, y: -model(x).log_softmax(1).gather(1, y[:, None]).mean()),
    "index": lambda: computed(lambda model, x, y: -model(x).log_softmax(1)[torch.arange(12), y].mean()),
    "one-hot": lambda: computed(lambda model, x, y: -(model(x).log_softmax(1) * F.one_hot(y, 3)).sum(1).mean()),
    "margin": lambda: sandbox_of(loss_fn=nn.MultiMarginLoss()),
    "sigmoid for each class": lambda: computed(
        lambda model, x, y: F.binary_cross_entropy_with_logits(model(x), F.one_hot(y, 3).float())
    ),
    "with a weight penalty": lambda: computed(
        lambda model, x, y: F.cross_entropy(model(x), y) + 9 * sum(p.square().sum() for p in model.parameters())
    ),
}


@pytest.mark.parametrize("make", CLASSIFIERS.values(), ids=CLASSIFIERS.keys())
def test_accuracy(make: Any) -> None:
    sandbox = make()
    found = fit(sandbox)
    assert found.measure == "accuracy" and found.chance == pytest.approx(1 / 3)
    assert found.value == pytest.approx(share_right(sandbox))


REGRESSIONS: dict[str, Any] = {
    "mse_loss": lambda out, y: F.mse_loss(out, y),
    "difference": lambda out, y: (out - y).square().mean(),
    "difference the other way": lambda out, y: (y - out).abs().mean(),
    "in place": lambda out, y: out.clone().sub_(y).pow(2).sum(),
}


@pytest.mark.parametrize("loss", REGRESSIONS.values(), ids=REGRESSIONS.keys())
def test_explained_variance(loss: Any) -> None:
    model = nn.Linear(5, 1)
    with torch.no_grad():
        model.weight.fill_(1.0)
        model.bias.zero_()
    found = fit(computed(lambda model, x, y: loss(model(x), y), model, (X, VALUES)))
    assert found.measure == "explained variance" and found.value == pytest.approx(1.0)


BINARIES: dict[str, Any] = {
    "with logits": lambda out, y: F.binary_cross_entropy_with_logits(out, y),
    "of probabilities": lambda out, y: F.binary_cross_entropy(out.sigmoid(), y),
    "written out": lambda out, y: -(y * out.sigmoid().log() + (1 - y) * (1 - out.sigmoid()).log()).mean(),
}


@pytest.mark.parametrize("loss", BINARIES.values(), ids=BINARIES.keys())
def test_binary_accuracy(loss: Any) -> None:
    model = nn.Linear(5, 1)
    with torch.no_grad():
        model.weight.copy_(torch.eye(5)[:1])
        model.bias.zero_()
    found = fit(computed(lambda model, x, y: loss(model(x), y), model, (X, BINARY)))
    assert found.measure == "accuracy" and found.value == 1.0
    assert found.chance == pytest.approx(max(float(BINARY.mean()), 1 - float(BINARY.mean())))


def test_ignored_targets_do_not_count() -> None:
    ignored = Y.clone()
    ignored[:6] = -100
    sandbox = sandbox_of(loss_fn=nn.CrossEntropyLoss(), batch=(X, ignored))
    model: Any = sandbox.model
    right = (model(X).argmax(1) == Y)[6:]
    assert fit(sandbox).value == pytest.approx(float(right.double().mean()))


def test_eval_mode_is_measured_and_left_again() -> None:
    class Forgetful(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(F.dropout(x, 1.0, self.training))

    sandbox = sandbox_of(Forgetful(), nn.CrossEntropyLoss())
    assert fit(sandbox).value == pytest.approx(share_right(sandbox))
    assert all(module.training for module in sandbox.model.modules())


NO_TARGETS: dict[str, Any] = {
    "rewards of both signs": lambda model, x, y: (
        -(model(x).log_softmax(1).gather(1, y[:, None]) * x[:, :1].sign()).mean()
    ),
    "noise": lambda model, x, y: F.mse_loss(model(x), torch.randn(12, 3)),
    "its own prediction": lambda model, x, y: F.cross_entropy(model(x), model(x).argmax(1)),
    "constant": lambda model, x, y: F.mse_loss(model(x), torch.ones(12, 3)),
    "nothing": lambda model, x, y: model(x).square().mean(),
}


@pytest.mark.parametrize("loss", NO_TARGETS.values(), ids=NO_TARGETS.keys())
def test_a_program_without_targets_of_the_batch_has_no_fit(loss: Any) -> None:
    sandbox = computed(loss)
    assert fit_on_tape(sandbox, sandbox.batch()) is None


def test_rare_classes_count_in_the_skill() -> None:
    """A loss that weighs a rare class is not after the accuracy: its predictions are judged class by class."""
    target = torch.zeros(12, 1)
    target[0] = 1.0
    inputs = torch.cat([torch.linspace(3, -3, 12)[:, None], torch.zeros(12, 4)], 1)
    model = nn.Linear(5, 1)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, 0, 0, 0, 0]]))
        model.bias.fill_(-1.5)  # finds the rare one, and takes two of the others for it

    def focal(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.binary_cross_entropy_with_logits(model(x), y, reduction="none")
        return ((1 - (-loss).exp()).square() * loss).mean()

    sandbox = computed(focal, model, (inputs, target))
    found = skill_of(sandbox, [sandbox.batch()], "tape")
    assert found is not None and found.measure == "balanced accuracy"
    assert found.value == pytest.approx((1 + 9 / 11) / 2)
