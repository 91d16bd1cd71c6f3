"""Healthy set-ups on tables."""

from __future__ import annotations

from typing import Any

import torch
from sklearn.datasets import load_breast_cancer, load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.clinic import healthy


def digits(batch_size: int = 64) -> DataLoader[Any]:
    """Give scikit-learn's digits as rows of 64 pixels between 0 and 1."""
    pixels, labels = load_digits(return_X_y=True)
    rows = torch.tensor(pixels, dtype=torch.float32) / 16
    return DataLoader(TensorDataset(rows, torch.tensor(labels)), batch_size, shuffle=True)


@healthy(epochs=5)
def mlp_on_digits() -> dict[str, Any]:
    """A plain three-layer network."""
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


@healthy(epochs=10)
def binary_on_breast_cancer() -> dict[str, Any]:
    """Binary cross-entropy with logits, batch normalisation first."""
    rows, labels = load_breast_cancer(return_X_y=True)
    rows = (rows - rows.mean(0)) / rows.std(0)
    data = TensorDataset(torch.tensor(rows, dtype=torch.float32), torch.tensor(labels, dtype=torch.float32)[:, None])
    model = nn.Sequential(nn.Linear(30, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 1))
    return {
        "model": model,
        "loader": DataLoader(data, 32, shuffle=True),
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=3e-3),
    }
