"""Models that cannot learn sixteen samples by heart, in each of the ways it fails."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from tests import loops
from tests.clinic import patient
from tests.zoo.tabular import digits


@patient("batch-not-memorised", where="model")
def flipped_sign() -> dict[str, Any]:
    """The loss falls without end while the model gets worse, or rises: here it is maximised."""
    cross = nn.CrossEntropyLoss()
    model = loops.mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, maximize=True)
    return {"model": model, "loader": digits(), "loss_fn": cross, "optimizer": optimizer}


@patient("batch-not-memorised", where="model")
def blind_model() -> dict[str, Any]:
    """The input is multiplied away, so nothing about a sample can be known."""

    class Blind(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = loops.mlp()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x * 0)

    return {"model": Blind(), "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


@pytest.mark.parametrize(
    ("rate", "make", "outcomes"),
    [
        (1e12, torch.optim.SGD, {"explodes", "not-finite"}),
        (3.0, torch.optim.Adam, {"oscillates", "rises", "explodes"}),
        (1e-9, torch.optim.Adam, {"plateaus"}),
    ],
)
def test_names_the_way_it_fails(rate: float, make: Any, outcomes: set[str]) -> None:
    """Rising, exploding, oscillating and flat are told apart."""
    report = nbdebug.diagnose(**loops.setup(None, rate, make), checks=["batch-not-memorised"], progress=False)
    assert report.findings[0].evidence["outcome"] in outcomes


@pytest.mark.parametrize("features", [2, 10])
def test_small_linear_models_are_no_bug(features: int) -> None:
    """A linear model cannot fit sixteen noisy targets, and is healthy."""
    torch.manual_seed(0)
    x = torch.randn(64, features)
    y = x.sum(1, keepdim=True) + torch.randn(64, 1)
    model = nn.Linear(features, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    report = nbdebug.diagnose(model, [(x, y)], nn.MSELoss(), optimizer, checks=["batch-not-memorised"], progress=False)
    assert not report.alarms
