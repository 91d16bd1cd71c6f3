"""Failing examples with units that never fire."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.zoo.tabular import digits


def mlp(act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Return a plain network for digits."""
    return nn.Sequential(nn.Linear(64, 32), act(), nn.Linear(32, 32), act(), nn.Linear(32, 10))


def setup(model: nn.Module) -> dict[str, Any]:
    """Look at digits."""
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


class ByHand(nn.Module):
    """Convolutions with functions between them."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.norm, self.two = nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.Conv2d(8, 16, 3)
        self.last = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rectify in place, pool, flatten."""
        x = nn.functional.relu_(self.norm(self.one(x.unflatten(1, (1, 8, 8)))))
        x = nn.functional.max_pool2d(torch.relu(self.two(x)), 4)
        return self.last(x.flatten(1))


@failing_example("dead-units", where="0")
def bias_far_below() -> dict[str, Any]:
    """A bias that no input overcomes."""
    model = mlp()
    nn.init.constant_(model[0].bias, -20.0)  # fixed: nn.init.zeros_(model[0].bias)
    return setup(model)


@failing_example("dead-units", where="two")
def dead_kernels_by_hand() -> dict[str, Any]:
    """Kernels that are pushed below zero, in a forward without activation modules."""
    model = ByHand()
    nn.init.constant_(model.two.bias, -30.0)
    return setup(model)


@failing_example("dead-units", where="2")
def dead_after_a_step_too_large() -> dict[str, Any]:
    """Three quarters of a layer were thrown far away."""
    model = mlp()
    with torch.no_grad():
        model[2].bias[:26] = -50.0
    return setup(model)


def findings(model: nn.Module) -> list[nbdebug.Finding]:
    """Run the check alone."""
    report = nbdebug.diagnose(**setup(model), checks=["dead-units"], progress=False)
    assert report.results[0].status != "crashed", report.results[0]
    return report.findings


def test_sparse_layers_are_healthy() -> None:
    """Units that fire for few samples are what ReLU is for; dropout's zeros are not the units' own."""
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.9), nn.Linear(64, 10))
    nn.init.constant_(model[0].bias, -0.3)
    assert not findings(model)


def test_zero_start_is_not_death() -> None:
    """A layer that starts at zero gives zeros and lives."""
    model = mlp()
    nn.init.zeros_(model[2].weight)
    nn.init.zeros_(model[2].bias)
    assert not findings(model)


def test_some_dead_units_are_usual() -> None:
    """Less than half of a layer is no illness."""
    model = mlp()
    with torch.no_grad():
        model[2].bias[:12] = -50.0
    assert not findings(model)


def test_activation_in_place() -> None:
    """ReLU in place overwrites what goes in, and healthy units stay healthy."""
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(inplace=True), nn.Linear(32, 10))
    assert not findings(model)
