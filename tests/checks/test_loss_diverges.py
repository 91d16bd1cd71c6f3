"""Trainings that go uphill."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.examples import failing_recording
from tests.real_runs import mlp, watched


@failing_recording("loss-diverges", where="loss")
def uphill() -> dict[str, Any]:
    """The gradient is followed in the wrong direction."""
    model = mlp()
    return watched(model, torch.optim.SGD(model.parameters(), lr=0.05, maximize=True), steps=200)
    # fixed: return watched(model, torch.optim.SGD(model.parameters(), lr=0.05), steps=200)


@failing_recording("loss-diverges", where="loss")
def squares_that_grow() -> dict[str, Any]:
    """A rate just beyond what a linear model can take."""
    model = nn.Linear(64, 1)

    def squares(output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return (output[:, 0] - labels).square().mean()

    return watched(model, torch.optim.SGD(model.parameters(), lr=0.1), steps=150, loss_fn=squares)
