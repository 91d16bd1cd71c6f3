"""Failing examples whose data hold what is no number."""

from __future__ import annotations

from typing import Any

import torch
from sklearn.datasets import load_diabetes
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.examples import failing_example
from tests.zoo.tabular import digits


def network(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs))


def diabetes_with_gaps() -> tuple[torch.Tensor, torch.Tensor]:
    rows, target = load_diabetes(return_X_y=True)
    rows, target = torch.tensor(rows, dtype=torch.float32) * 20, torch.tensor(target, dtype=torch.float32)[:, None]
    rows[37, 4] = float("nan")
    return rows, (target - 152) / 77


@failing_example("non-finite-inputs", where="batch[0][:, 4]")
def one_side_of_a_comparison() -> dict[str, Any]:
    """The model answers twice for each loss, and only its first answer is no number."""
    rows, target = diabetes_with_gaps()
    left, right, sign = rows[:220], rows[220:440], torch.sign(target[:220] - target[220:440])[:, 0]

    def compare(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        first, second, better = batch
        return loss_fn(model(first)[:, 0], model(second)[:, 0], better)

    loader = DataLoader(TensorDataset(left, right, sign), 20, shuffle=True)
    loss = nn.MarginRankingLoss(margin=0.5)
    return {"model": network(10, 1), "loader": loader, "loss_fn": loss, "compute_loss": compare}


@failing_example("non-finite-inputs", where="batch[0][:, 4]")
def one_missing_entry() -> dict[str, Any]:
    """One cell of a table was never measured."""
    loader = DataLoader(TensorDataset(*diabetes_with_gaps()), 32, shuffle=True)
    return {"model": network(10, 1), "loader": loader, "loss_fn": nn.MSELoss()}


@failing_example("non-finite-inputs", where="batch[1]")
def logarithm_of_zero() -> dict[str, Any]:
    """Targets are logarithms, and one of them is that of zero."""
    rows, _ = diabetes_with_gaps()
    target = torch.log(torch.arange(442.0))[:, None]
    loader = DataLoader(TensorDataset(torch.nan_to_num(rows), target), 32, shuffle=True)
    return {"model": network(10, 1), "loader": loader, "loss_fn": nn.L1Loss()}


@failing_example("non-finite-inputs", where="batch[0]")
def pictures_divided_by_their_own_spread() -> dict[str, Any]:
    """A blank picture divided by its own spread."""
    images = torch.rand(60, 1, 8, 8)
    images[11] = 0.5
    spread = images.std((1, 2, 3), keepdim=True)  # fixed: spread = images.std((1, 2, 3), keepdim=True).clamp_min(1e-6)
    images = (images - images.mean((1, 2, 3), keepdim=True)) / spread
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(144, 3))
    loader = DataLoader(TensorDataset(images, torch.arange(60) % 3), 16)
    return {"model": model, "loader": loader, "loss_fn": nn.CrossEntropyLoss()}


def status(**setup: Any) -> Any:
    return nbdebug.diagnose(**setup, checks=["non-finite-inputs"], progress=False).result("non-finite-inputs")


def test_finite_data_is_clean() -> None:
    assert status(model=network(64, 10), loader=digits(), loss_fn=nn.CrossEntropyLoss()).status == "clean"


class FillsGaps(nn.Module):
    """A model that knows of missing entries."""

    def __init__(self) -> None:
        super().__init__()
        self.body = network(10, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(torch.nan_to_num(x))


def test_a_model_that_fills_gaps_is_noted_only() -> None:
    loader = DataLoader(TensorDataset(*diabetes_with_gaps()), 32)
    result = status(model=FillsGaps(), loader=loader, loss_fn=nn.MSELoss())
    assert [f.severity for f in result.findings] == ["note"]


def known_only(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    known = ~torch.isnan(target)
    return (output[known] - target[known]).square().mean()


def test_a_loss_that_leaves_gaps_out_is_noted_only() -> None:
    rows, target = diabetes_with_gaps()
    target[::7] = float("nan")
    loader = DataLoader(TensorDataset(torch.nan_to_num(rows), target), 32)
    result = status(model=network(10, 1), loader=loader, loss_fn=known_only)
    assert [f.severity for f in result.findings] == ["note"]


class Masked(nn.Module):
    """Adds a mask to attention scores."""

    def __init__(self) -> None:
        super().__init__()
        self.score, self.head = nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.head(torch.softmax(self.score(x) + mask, 1) * x)


def test_a_mask_of_minus_infinity_is_no_illness() -> None:
    mask = torch.zeros(64, 6)
    mask[:, 4:] = float("-inf")
    loader = DataLoader(TensorDataset(torch.randn(64, 6), mask, torch.arange(64) % 2), 16)
    assert status(model=Masked(), loader=loader, loss_fn=nn.CrossEntropyLoss()).status == "clean"
