"""Failing examples whose activations sit at their ends."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.examples import failing_example
from tests.zoo.tabular import digits


def mlp(act: type[nn.Module] = nn.Tanh) -> nn.Sequential:
    """Return a plain network for digits."""
    return nn.Sequential(nn.Linear(64, 32), act(), nn.Linear(32, 32), act(), nn.Linear(32, 10))


def setup(model: nn.Module, loader: Any = None) -> dict[str, Any]:
    """Look at digits."""
    return {"model": model, "loader": loader or digits(), "loss_fn": nn.CrossEntropyLoss()}


class Soft(nn.Module):
    """A softsign sigmoid written by hand inside forward."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 32), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Squash with exp and a division."""
        return self.last(1 / (1 + torch.exp(-self.first(x))))


@failing_example("saturated-units", where="2")
def tanh_with_large_weights() -> dict[str, Any]:
    """A hidden layer a hundred times too large."""
    model = mlp()
    with torch.no_grad():
        model[2].weight.mul_(100)  # fixed: nn.init.xavier_normal_(model[2].weight)
    return setup(model)


@failing_example("saturated-units", where="first")
def sigmoid_by_hand() -> dict[str, Any]:
    """A squashing function that has no name."""
    model = Soft()
    with torch.no_grad():
        model.first.weight.mul_(60)
    return setup(model)


@failing_example("saturated-units", where="0")
def raw_values_into_tanh() -> dict[str, Any]:
    """Inputs in the hundreds."""
    rows, labels = digits().dataset.tensors  # type: ignore[attr-defined]
    return setup(mlp(), DataLoader(TensorDataset(rows * 4000, labels), 64, shuffle=True))


def findings(model: nn.Module) -> list[nbdebug.Finding]:
    """Run the check alone."""
    report = nbdebug.diagnose(**setup(model), checks=["saturated-units"], progress=False)
    assert report.results[0].status != "crashed", report.results[0]
    return report.findings


def test_healthy_squashing_is_silent() -> None:
    """tanh, sigmoid and hard versions at their usual start."""
    for act in (nn.Tanh, nn.Sigmoid, nn.Hardtanh, nn.Softsign, nn.ReLU6):
        assert not findings(mlp(act))


def test_relu_is_not_saturated() -> None:
    """The flat side of a rectifier is no saturation."""
    assert not findings(mlp(nn.ReLU))


def test_confident_answers_are_no_illness() -> None:
    """The last layer may be as certain as it likes."""
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10), nn.Sigmoid())
    with torch.no_grad():
        model[2].weight.mul_(500)
    assert not findings(model)
