"""Failing examples whose layers leave the range of float16."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.examples import failing_example
from tests.zoo.tabular import digits

CHECK = "float16-overflow"


@failing_example(CHECK, where="0")
def inputs_in_raw_units() -> dict[str, Any]:
    """A network for rows whose columns are counted in raw units."""
    chance = torch.Generator().manual_seed(0)
    rows = torch.randn(64, 8, generator=chance)
    rows *= 1e7  # fixed: rows *= 1.0
    data = TensorDataset(rows, (rows[:, 0] > 0).long())
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
    return {"model": model, "loader": DataLoader(data, 32), "loss_fn": nn.CrossEntropyLoss()}


@failing_example(CHECK, where="2")
def large_hidden_weights() -> dict[str, Any]:
    """A network whose second layer is initialized with a standard deviation of thousands."""
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32), nn.LayerNorm(32), nn.Linear(32, 10))
    nn.init.normal_(model[2].weight, std=1e6)
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


def test_outputs_of_thousands_fit() -> None:
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32), nn.LayerNorm(32), nn.Linear(32, 10))
    nn.init.normal_(model[2].weight, std=1e3)
    healthy = {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}
    report = nbdebug.diagnose(**healthy, checks=[CHECK], progress=False)
    assert report.result(CHECK).status == "clean"


def test_it_overflows_indeed() -> None:
    found = large_hidden_weights()
    with torch.autocast("cpu", torch.float16):
        given = found["model"][:3](next(iter(found["loader"]))[0])
    assert not torch.isfinite(given).all()
