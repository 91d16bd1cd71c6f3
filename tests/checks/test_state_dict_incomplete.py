"""Failing examples whose checkpoint lacks what the forward pass needs."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.zoo.tabular import digits

CHECK = "state-dict-incomplete"


class Centered(nn.Module):
    """A network that subtracts a running mean of its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = torch.zeros(64)  # fixed: self.register_buffer("mean", torch.zeros(64))
        self.layers = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Follow the mean in training."""
        if self.training:
            self.mean = 0.5 * self.mean + 0.5 * x.detach().mean(0)
        return self.layers(x - self.mean)


class Scaled(nn.Module):
    """A network whose batch normalization keeps its scale in a buffer that is not saved."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(64, 32), nn.Linear(32, 10)
        self.register_buffer("scale", torch.ones(()), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Divide by a running maximum."""
        hidden = self.body(x)
        if self.training:
            self.scale = torch.maximum(self.scale, 4 * hidden.detach().abs().max())
        return self.head(hidden / self.scale)


@failing_example(CHECK, where="mean")
def mean_in_an_attribute() -> dict[str, Any]:
    """A running mean that is a plain attribute."""
    return {"model": Centered(), "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


@failing_example(CHECK, where="model")
def buffer_that_is_not_saved() -> dict[str, Any]:
    """A running scale in a buffer with persistent=False."""
    return {"model": Scaled(), "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


class Cached(nn.Module):
    """A network that computes a table once and keeps it: nothing of the training is in it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(), nn.Linear(32, 10))
        self.table: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add the table."""
        if self.table is None:
            self.table = torch.linspace(-1, 1, 64)
        return self.layers(x + self.table)


def test_running_statistics_dropout_and_caches_are_clean() -> None:
    report = nbdebug.diagnose(Cached(), digits(), nn.CrossEntropyLoss(), checks=[CHECK], progress=False)
    assert report.result(CHECK).status == "clean"
