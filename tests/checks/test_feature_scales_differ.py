"""Failing examples whose columns are of very different size."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import cancer, friedman, raw_cancer, seeded, wine


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs))


def setup(model: nn.Module, *columns: torch.Tensor, loss_fn: Any) -> dict[str, Any]:
    return {"model": model, "loader": DataLoader(TensorDataset(*columns), 32, shuffle=True), "loss_fn": loss_fn}


@failing_example("feature-scales-differ", where="0")
def one_column_in_other_units() -> dict[str, Any]:
    """One of ten scaled columns is in grams instead of tonnes."""
    rows, target = friedman()
    rows = rows.clone()
    rows[:, 3] *= 5000
    return setup(mlp(10, 1), rows, target, loss_fn=nn.MSELoss())


@failing_example("feature-scales-differ", where="0")
def wines_as_measured() -> dict[str, Any]:
    """Columns between 0.1 and 1,700."""
    return setup(mlp(13, 3), *wine(raw=True), loss_fn=nn.CrossEntropyLoss())
    # fixed: return setup(mlp(13, 3), *wine(), loss_fn=nn.CrossEntropyLoss())


class Convolution(nn.Module):
    """Looks at two channels of a signal."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv1d(2, 8, 5), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.conv(x).relu().mean(2))


@failing_example("feature-scales-differ", where="conv")
def two_sensors() -> dict[str, Any]:
    """Pressure in pascal beside acceleration in g."""
    signal = torch.randn(200, 2, 40, generator=seeded()) * torch.tensor([[1.0], [5e3]])
    return setup(Convolution(), signal, torch.arange(200) % 2, loss_fn=nn.CrossEntropyLoss())


def alarms(**setup: Any) -> list[str]:
    return [str(f) for f in nbdebug.diagnose(**setup, checks=["feature-scales-differ"], progress=False).alarms]


def test_batch_normalization_first_is_healthy() -> None:
    model = nn.Sequential(nn.BatchNorm1d(30), *mlp(30, 1))
    assert not alarms(**setup(model, *raw_cancer(), loss_fn=nn.BCEWithLogitsLoss()))


def test_rare_columns_beside_scaled_ones_are_healthy() -> None:
    rows, labels = cancer()
    rare = (torch.rand(len(rows), 20, generator=seeded()) < 0.01).float()
    assert not alarms(**setup(mlp(50, 1), torch.cat([rows, rare], 1), labels, loss_fn=nn.BCEWithLogitsLoss()))
