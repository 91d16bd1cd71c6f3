"""Digits, cut into splits, and a network that learns them in a second."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

__all__ = ["loader_of", "network", "pixels", "trained"]


def pixels() -> tuple[torch.Tensor, torch.Tensor]:
    """Return images between 0 and 1 and their classes, in a fixed random order."""
    x, y = load_digits(return_X_y=True)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    return torch.tensor(x / 16, dtype=torch.float32)[order], torch.tensor(y)[order]


def loader_of(inputs: torch.Tensor, targets: torch.Tensor, size: int = 64) -> DataLoader[tuple[torch.Tensor, ...]]:
    return DataLoader(TensorDataset(inputs, targets), size, shuffle=True)


def network(width: int = 64) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))


def trained(model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor, epochs: int = 40) -> nn.Module:
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        for rows in torch.randperm(len(inputs), generator=generator).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs[rows]), targets[rows]).backward()
            optimizer.step()
    return model
