"""Failing examples that give one answer to everything."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.zoo.tabular import digits


@failing_example("outputs-identical", where="1")
def all_units_dead() -> dict[str, Any]:
    """The biases keep every unit silent."""
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    nn.init.constant_(model[0].bias, -50.0)  # fixed: nn.init.zeros_(model[0].bias)
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


class WrongVariable(nn.Module):
    """Uses a tensor of zeros where the hidden values were meant."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 32), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Forget what was computed."""
        hidden = self.first(x)
        state = torch.zeros_like(hidden)
        return self.last(state)


@failing_example("outputs-identical", where="last")
def wrong_variable() -> dict[str, Any]:
    """The hidden values are never used."""
    return {"model": WrongVariable(), "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


@failing_example("outputs-identical", where="3")
def softmax_over_one() -> dict[str, Any]:
    """The softmax of a single number is 1."""
    model = nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 1), nn.Softmax(dim=1))
    x, y = torch.rand(64, 64), torch.randint(0, 2, (64, 1)).float()
    return {"model": model, "loader": [(x, y)], "loss_fn": nn.BCELoss()}


def test_a_head_that_begins_at_zero_is_fine() -> None:
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    nn.init.zeros_(model[2].weight)
    report = nbdebug.diagnose(model, digits(), nn.CrossEntropyLoss(), checks=["outputs-identical"], progress=False)
    assert report.result("outputs-identical").status == "clean"
