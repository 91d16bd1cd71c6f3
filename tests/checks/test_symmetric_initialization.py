"""Failing examples whose units are copies of each other."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.zoo.tabular import digits


def mlp() -> nn.Sequential:
    """Return a plain network for digits."""
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10))


def setup(model: nn.Module) -> dict[str, Any]:
    """Look at digits."""
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


def filled(model: nn.Module, value: float) -> nn.Module:
    """Return every weight the same value, and zero biases."""
    for name, parameter in model.named_parameters():
        nn.init.constant_(parameter, value if name.endswith("weight") else 0.0)
    return model


@failing_example("symmetric-initialization", where="0")
def all_zero() -> dict[str, Any]:
    """Every weight is zero."""
    return setup(filled(mlp(), 0.0))


@failing_example("symmetric-initialization", where="0")
def all_the_same() -> dict[str, Any]:
    """Every weight is the same constant."""
    return setup(filled(mlp(), 0.05))


@failing_example("symmetric-initialization", where="1")
def kernels_the_same() -> dict[str, Any]:
    """Convolutions of one constant, with dropout that tries to tell units apart."""
    model = nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 8, 3), nn.Tanh(), nn.Dropout(0.2), nn.Conv2d(8, 8, 3), nn.Tanh(),
        nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip
    return setup(filled(model, 0.02))


@failing_example("symmetric-initialization", where="0")
def one_layer_the_same() -> dict[str, Any]:
    """A single hidden layer filled with a constant: it begins as one unit."""
    model = mlp()
    nn.init.constant_(model[0].weight, 0.1)  # fixed: nn.init.kaiming_normal_(model[0].weight)
    nn.init.constant_(model[0].bias, 0.0)
    return setup(model)


def severities(model: nn.Module) -> list[str]:
    """Run the check alone."""
    report = nbdebug.diagnose(**setup(model), checks=["symmetric-initialization"], progress=False)
    assert report.results[0].status != "crashed", report.results[0]
    return [finding.severity for finding in report.findings]


class Residual(nn.Module):
    """A block that starts as the identity."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(64, 64), nn.Linear(64, 64)
        nn.init.zeros_(self.outer.weight)
        nn.init.zeros_(self.outer.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add a branch that says nothing yet."""
        return x + self.outer(self.inner(x).relu())


def test_zero_starts_that_are_meant() -> None:
    """The end of a residual branch and the last layer may start at zero, together too."""
    model = nn.Sequential(Residual(), Residual(), Residual(), nn.Linear(64, 10))
    assert severities(model) == []
    nn.init.zeros_(model[-1].weight)
    assert severities(model) == []


def test_depthwise_blur_comes_apart() -> None:
    """Equal kernels that look at different channels get different gradients."""
    model = nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 8, 1), nn.Conv2d(8, 8, 3, groups=8), nn.ReLU(), nn.Flatten(),
        nn.Linear(288, 10),
    )  # fmt: skip
    nn.init.constant_(model[2].weight, 1 / 9)
    assert "bug" not in severities(model)
