"""Set-ups that are large in one way: many modules, many parameters, or samples that are slow to read."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

READING = 0.003  # seconds for one sample


class Block(nn.Module):
    """A residual block of four modules."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.linear, self.act = nn.LayerNorm(width), nn.Linear(width, width), nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add what the layer makes of it."""
        return x + self.act(self.linear(self.norm(x)))  # type: ignore[no-any-return]


def deep_model(blocks: int = 250) -> tuple[nn.Module, DataLoader[Any]]:
    """Return a residual network of 1,003 modules, and two classes."""
    model = nn.Sequential(nn.Linear(20, 32), *(Block(32) for _ in range(blocks)), nn.Linear(32, 2))
    inputs = torch.randn(2048, 20)
    return model, DataLoader(TensorDataset(inputs, (inputs[:, 0] > 0).long()), 64, shuffle=True)


class SlowSamples(Dataset[Any]):
    """Samples that are made one by one, each slowly."""

    def __init__(self, count: int = 100_000) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        end = time.perf_counter() + READING
        while time.perf_counter() < end:
            pass
        values = torch.randn(20, generator=torch.Generator().manual_seed(int(index)))
        return values, int(values[0] > 0)


def slow_samples() -> tuple[nn.Module, DataLoader[Any]]:
    """Return a small network on samples that take 3 ms each."""
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 2))
    return model, DataLoader(SlowSamples(), 32, shuffle=True)
