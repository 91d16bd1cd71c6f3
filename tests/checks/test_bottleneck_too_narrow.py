"""Failing examples that squeeze everything through a straw."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.examples import failing_example
from tests.zoo.tabular import digits


def setup(model: nn.Module, **more: Any) -> dict[str, Any]:
    """Look at digits."""
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss(), **more}


@failing_example("bottleneck-too-narrow", where="2")
def one_number_for_ten_classes() -> dict[str, Any]:
    """A hidden layer of one unit."""
    return setup(nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1), nn.ReLU(), nn.Linear(1, 10)))
    # fixed: return setup(nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10)))


@failing_example("bottleneck-too-narrow", where="4")
def convolutions_into_one_number() -> dict[str, Any]:
    """A convolutional network whose pooled features become one number."""
    model = nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(576, 1), nn.Tanh(),
        nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip
    return setup(model)


@failing_example("bottleneck-too-narrow", where="2")
def two_numbers_for_eight_values() -> dict[str, Any]:
    """Regression of eight independent values through two."""
    rows = torch.randn(256, 16)
    loader = DataLoader(TensorDataset(rows, rows @ torch.randn(16, 8)), 64)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2), nn.Linear(2, 8))
    return setup(model, loader=loader, loss_fn=nn.MSELoss())


class Gate(nn.Module):
    """A side branch of width one, as attention scores have."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.score, self.last = nn.Linear(64, 32), nn.Linear(32, 1), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Weigh the body by its score."""
        x = self.body(x).relu()
        return self.last(x * self.score(x).sigmoid())


def findings(**setup: Any) -> list[nbdebug.Finding]:
    """Run the check alone."""
    report = nbdebug.diagnose(**setup, checks=["bottleneck-too-narrow"], progress=False)
    assert report.results[0].status != "crashed", report.results[0]
    return report.findings


def test_narrow_side_branch_is_silent() -> None:
    """What flows beside a narrow layer is not lost."""
    assert not findings(**setup(Gate()))


def test_autoencoder_is_a_note() -> None:
    """A narrow middle is what an autoencoder is for."""
    loader = DataLoader(digits().dataset.tensors[0], 64)  # type: ignore[attr-defined]
    model = nn.Sequential(
        nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 2), nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 64)
    )
    assert {f.severity for f in findings(model=model, loader=loader, loss_fn=nn.MSELoss())} <= {"note"}


def test_binary_answers_need_one_number() -> None:
    """Two classes pass through one unit."""
    rows = torch.randn(128, 8)
    loader = DataLoader(TensorDataset(rows, (rows[:, 0] > 0).long()), 64)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1), nn.Linear(1, 2))
    assert not findings(**setup(model, loader=loader))
