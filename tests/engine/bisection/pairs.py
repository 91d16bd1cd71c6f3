"""Small set-ups that differ in what a test asks for."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.zoo.samples import digit_rows


def digits(
    *,
    scale: float = 1.0,
    lr: float = 3e-3,
    batch: int = 32,
    width: int = 32,
    decay: float = 0.0,
    dropout: float = 0.0,
    act: nn.Module | None = None,
    shuffle: bool = True,
    seed: int = 0,
    make: Any = torch.optim.Adam,
    **more: Any,
) -> dict[str, Any]:
    """Classify digits."""
    torch.manual_seed(seed)
    rows, labels = digit_rows()
    model = nn.Sequential(nn.Linear(64, width), act or nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, 10))
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(rows * scale, labels), batch, shuffle=shuffle),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": make(model.parameters(), lr=lr, weight_decay=decay),
        **more,
    }
