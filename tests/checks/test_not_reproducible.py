"""Failing examples whose chance no seed reaches."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.utils.data import DataLoader, Dataset

import nbdebug
from tests.examples import failing_example
from tests.zoo.tabular import digits

CHECK = "not-reproducible"


class Unseeded(nn.Module):
    """A network with noise from a generator that is made anew from the system's chance."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add noise in training."""
        if self.training:
            x = x + torch.from_numpy(np.random.default_rng().normal(size=tuple(x.shape))).float()
        return self.body(x)


class ByTheSystem(nn.Module):
    """A network that drops units by bytes of the operating system."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 32), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Mask half of the units."""
        mask = torch.tensor([byte % 2 for byte in os.urandom(32)], dtype=torch.float32)
        # fixed: mask = torch.randint(0, 2, (32,)).float()
        return self.last(self.first(x).relu() * mask)


class Jittered(Dataset[Any]):
    """Rows with noise that no seed reaches."""

    def __init__(self) -> None:
        table, self.labels = load_breast_cancer(return_X_y=True)
        self.rows = ((table - table.mean(0)) / table.std(0)).astype(np.float32)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        noise = np.random.default_rng().normal(size=30).astype(np.float32)
        return self.rows[index] + noise, int(self.labels[index])


@failing_example(CHECK)
def noise_from_nowhere() -> dict[str, Any]:
    """The forward pass makes a generator of its own."""
    return {"model": Unseeded(), "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


@failing_example(CHECK)
def mask_of_the_system() -> dict[str, Any]:
    """The mask comes from the operating system."""
    return {"model": ByTheSystem(), "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


@failing_example(CHECK, where="loader")
def samples_from_nowhere() -> dict[str, Any]:
    """The data set makes a generator of its own at each reading."""
    return {"model": nn.Linear(30, 2), "loader": DataLoader(Jittered(), 32), "loss_fn": nn.CrossEntropyLoss()}


def status(model: nn.Module) -> str:
    """Run this check alone."""
    report = nbdebug.diagnose(model, digits(), nn.CrossEntropyLoss(), checks=[CHECK], progress=False)
    return report.result(CHECK).status


def test_dropout_is_clean() -> None:
    assert status(nn.Sequential(nn.Linear(64, 32), nn.Dropout(0.5), nn.BatchNorm1d(32), nn.Linear(32, 10))) == "clean"


class Seeded(Unseeded):
    """A network that holds a seeded generator."""

    def __init__(self) -> None:
        super().__init__()
        self.chance = np.random.default_rng(0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add noise from it."""
        return self.body(x + torch.from_numpy(self.chance.normal(size=tuple(x.shape))).float())


def test_a_generator_that_is_kept_is_clean() -> None:
    assert status(Seeded()) == "clean"
