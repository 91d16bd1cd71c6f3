"""Pairs on tables: classes and numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.bisect_pairs import pair
from tests.zoo.samples import cancer, friedman, raw_cancer


def tumours(
    *,
    raw: bool = False,
    batch: int = 32,
    lr: float = 0.1,
    decay: float = 0.0,
    seed: int = 0,
    nesterov: bool = False,
    width: int = 32,
    last: Any = None,
) -> dict[str, Any]:
    """Classify tumours with SGD."""
    torch.manual_seed(seed)
    rows, labels = raw_cancer() if raw else cancer()
    model = nn.Sequential(nn.Linear(30, width), nn.ReLU(), nn.Linear(width, 1), last or nn.Identity())
    optimizer = torch.optim.SGD(model.parameters(), lr, momentum=0.9, weight_decay=decay, nesterov=nesterov)
    loader = DataLoader(TensorDataset(rows, labels.float().reshape(-1, 1)), batch, shuffle=True)
    return {"model": model, "loader": loader, "loss_fn": nn.BCEWithLogitsLoss(), "optimizer": optimizer}


def numbers(
    *,
    scale: float = 1.0,
    batch: int = 32,
    lr: float = 3e-3,
    decay: float = 0.0,
    seed: int = 0,
    beta: float = 0.9,
    width: int = 64,
    dropout: float = 0.0,
    make: Any = torch.optim.Adam,
) -> dict[str, Any]:
    """Predict a smooth function of ten columns."""
    torch.manual_seed(seed)
    rows, targets = friedman()
    targets = (targets - targets.mean()) / targets.std() * scale + (scale - 1) * 5
    model = nn.Sequential(
        nn.Linear(rows.shape[1], width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, 1),
    )  # fmt: skip
    options = {"betas": (beta, 0.999)} if make is torch.optim.Adam else {}
    optimizer = make(model.parameters(), lr, weight_decay=decay, **options)
    loader = DataLoader(TensorDataset(rows, targets.reshape(-1, 1)), batch, shuffle=True)
    return {"model": model, "loader": loader, "loss_fn": nn.MSELoss(), "optimizer": optimizer}


HARMLESS = {"batch": 40, "lr": 0.08, "decay": 1e-5, "seed": 3, "nesterov": True}
NUMBERS_HARMLESS = {"batch": 40, "lr": 2.5e-3, "decay": 1e-6, "seed": 3, "beta": 0.88}

pair("table, raw columns", "tabular", tumours, "dataset", held_out=False, raw=True, **HARMLESS)

pair("table, targets not scaled", "tabular", numbers, "dataset", held_out=True, scale=500.0, **NUMBERS_HARMLESS)
pair("table, optimizer", "tabular", numbers, "optimizer", held_out=True, make=torch.optim.Adagrad,
     **{key: value for key, value in NUMBERS_HARMLESS.items() if key != "beta"} | {"lr": 1e-4})  # fmt: skip
pair("table, rate and last ReLU", "tabular", tumours, "learning rate, architecture", held_out=True,
     last=nn.Hardtanh(0, 1), **HARMLESS | {"lr": 1e-7})  # fmt: skip
pair("table, both learn", "tabular", numbers, "", held_out=True, width=72, dropout=0.02, **NUMBERS_HARMLESS)
