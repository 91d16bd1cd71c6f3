"""Failing examples whose loss no gradient leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import digit_rows, seeded, split

CHECK = "loss-not-differentiable"


def net(inputs: int = 64, outputs: int = 10) -> nn.Sequential:
    """Return a small network."""
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs))


def numbers() -> Any:
    """Return rows with a number to predict."""
    rows = torch.randn(512, 8, generator=seeded())
    return split(rows, 3 * rows[:, :1])[0]


class CutHead(nn.Module):
    """A head that leaves the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Take the values only."""
        return self.linear(x).data


@failing_example(CHECK, where="loss_fn")
def share_of_errors() -> dict[str, Any]:
    """An argmax has no gradient."""
    loss = lambda out, y: (out.argmax(1) != y).float().mean()  # noqa: E731
    return {"model": net(), "loader": split(*digit_rows())[0], "loss_fn": loss}


@failing_example(CHECK, where="loss_fn")
def plain_number() -> dict[str, Any]:
    """A Python number by way of NumPy."""
    loss = lambda out, y: float(np.square(out.detach().numpy() - y.numpy()).mean())  # noqa: E731
    return {"model": net(8, 1), "loader": numbers(), "loss_fn": loss}


@failing_example(CHECK, where="compute_loss")
def new_tensor() -> dict[str, Any]:
    """Wrapped into a tensor that only looks as if it could be trained."""

    def compute(model: nn.Module, batch: Any, _: Any) -> torch.Tensor:
        value = nn.functional.cross_entropy(model(batch[0]), batch[1]).item()
        return torch.tensor(value, requires_grad=True)

    return {"model": net(), "loader": split(*digit_rows())[0], "compute_loss": compute}


@failing_example(CHECK, where="loss_fn")
def rounded() -> dict[str, Any]:
    """Rounding has a gradient, and it is zero."""
    loss = lambda out, y: (out.round() - y).square().mean()  # noqa: E731
    return {"model": net(8, 1), "loader": numbers(), "loss_fn": loss}


@failing_example(CHECK, where="loss_fn")
def unreduced() -> dict[str, Any]:
    """One loss for each sample."""
    loss = nn.CrossEntropyLoss(reduction="none")  # fixed: loss = nn.CrossEntropyLoss()
    return {"model": net(), "loader": split(*digit_rows())[0], "loss_fn": loss}


@failing_example(CHECK, where="2")
def cut_in_the_model() -> dict[str, Any]:
    """The last module gives values without a graph."""
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), CutHead())
    return {"model": model, "loader": split(*digit_rows())[0], "loss_fn": nn.CrossEntropyLoss()}


@failing_example(CHECK, where="model")
def forward_without_gradient() -> dict[str, Any]:
    """The whole forward runs with gradients switched off."""

    class Off(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                return self.net(x)

    return {"model": Off(), "loader": split(*digit_rows())[0], "loss_fn": nn.CrossEntropyLoss()}


@pytest.mark.parametrize(
    "loss",
    [
        nn.CrossEntropyLoss(),
        nn.MultiMarginLoss(),
        lambda out, y: nn.functional.cross_entropy(out, y) * out.detach().abs().mean(),
        lambda out, y: {"loss": nn.functional.cross_entropy(out, y), "accuracy": (out.argmax(1) == y).float().mean()},
    ],
)
def test_losses_with_a_gradient(loss: Any) -> None:
    """A detached factor and a dictionary with a metric are fine."""
    assert not nbdebug.diagnose(net(), split(*digit_rows())[0], loss, checks=[CHECK], progress=False).findings


def test_frozen_model_is_another_matter() -> None:
    """Where nothing is trained, nothing needs a gradient."""
    model = net().requires_grad_(False)
    report = nbdebug.diagnose(model, split(*digit_rows())[0], nn.CrossEntropyLoss(), checks=[CHECK], progress=False)
    assert report.result(CHECK).status == "skipped"


def keras_crossentropy(p: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Compute the cross-entropy of probabilities as Keras does; outside of its domain the gradient is not finite."""
    p = (p / p.sum(-1, keepdim=True)).clamp(1e-7, 1 - 1e-7)
    return -(nn.functional.one_hot(y, p.shape[-1]) * p.log()).sum(-1).mean()


def of_probabilities(loss_fn: Any) -> Any:
    """Diagnose a classifier that ends in a softmax."""
    model = nn.Sequential(*net(), nn.Softmax(-1))
    return nbdebug.diagnose(model, split(*digit_rows())[0], loss_fn, checks=[CHECK], progress=False).result(CHECK)


def test_a_gradient_that_is_not_finite_is_not_taken_for_zero() -> None:
    assert of_probabilities(keras_crossentropy).status == "clean"


def test_rounded_probabilities_are_still_found() -> None:
    found = of_probabilities(lambda p, y: keras_crossentropy(p.round() + 1e-3, y))
    assert [f.severity for f in found.findings] == ["bug"] and "zero everywhere" in found.findings[0].says
