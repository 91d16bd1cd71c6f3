"""Failing examples that leave most of their data out."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import (
    DataLoader,
    RandomSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import digit_rows

DATA = TensorDataset(*digit_rows())


def setup(loader: Any, val_loader: Any = None) -> dict[str, Any]:
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    return {"model": model, "loader": loader, "loss_fn": nn.CrossEntropyLoss(), "val_loader": val_loader}


@failing_example("samples-dropped", where="loader")
def last_batch_dropped() -> dict[str, Any]:
    """Batches of 1,000 of 1,797 samples, and the rest is dropped."""
    return setup(DataLoader(DATA, 1000, shuffle=True, drop_last=True))


@failing_example("samples-dropped", where="loader")
def sampler_over_the_first_samples() -> dict[str, Any]:
    """Indices left from a quick test."""
    return setup(DataLoader(DATA, 32, sampler=SubsetRandomSampler(range(200))))
    # fixed: return setup(DataLoader(DATA, 32, shuffle=True))


@failing_example("samples-dropped", where="loader")
def split_by_position_and_forgotten() -> dict[str, Any]:
    """Training takes the first tenth, and nobody takes the rest."""
    val = DataLoader(DATA, 32, sampler=SubsetRandomSampler(range(180, 360)))
    return setup(DataLoader(DATA, 32, sampler=SubsetRandomSampler(range(180))), val)


def alarms(loader: Any, val_loader: Any = None) -> list[str]:
    report = nbdebug.diagnose(**setup(loader, val_loader), checks=["samples-dropped"], progress=False)
    return [str(f) for f in report.alarms]


def test_usual_loaders_are_healthy() -> None:
    assert not alarms(DataLoader(DATA, 64, shuffle=True, drop_last=True))
    assert not alarms(DataLoader(DATA, 64, sampler=WeightedRandomSampler(torch.rand(1797) ** 4, 500)))
    assert not alarms(DataLoader(DATA, 64, sampler=RandomSampler(DATA, num_samples=100)))
    assert not alarms(DataLoader(DATA, 64, sampler=RandomSampler(DATA, replacement=True, num_samples=300)))
    assert not alarms(DataLoader(Subset(DATA, range(1200)), 64))


def test_a_split_by_sampler_is_healthy() -> None:
    val = DataLoader(DATA, 64, sampler=SubsetRandomSampler(range(700, 1797)))
    assert not alarms(DataLoader(DATA, 64, sampler=SubsetRandomSampler(range(700))), val)
