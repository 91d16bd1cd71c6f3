"""Data and networks of the fifth round."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from tests.zoo.samples import seeded

Made = dict[str, Any]


@functools.cache
def waves(count: int = 1200, length: int = 48) -> tuple[torch.Tensor, torch.Tensor]:
    """Return noisy signals of four shapes, and which shape it is."""
    generator = seeded(11)
    kinds = torch.randint(0, 4, (count,), generator=generator)
    phase = torch.rand(count, 1, generator=generator) * 6.28
    turns = (2 + 2 * torch.rand(count, 1, generator=generator)) * torch.linspace(0, 6.28, length) + phase
    sine = turns.sin()
    shapes = torch.stack([sine, sine.sign(), (turns / 6.28).frac() * 2 - 1, sine.abs() * 2 - 1])
    signals = shapes[kinds, torch.arange(count)] + 0.2 * torch.randn(count, length, generator=generator)
    return signals, kinds


@functools.cache
def plants(count: int = 1000) -> tuple[torch.Tensor, torch.Tensor]:
    """Return eight readings of a plant and its output, both about standard normal."""
    generator = seeded(12)
    x = torch.randn(count, 8, generator=generator)
    y = x[:, 0] * x[:, 1] + x[:, 2].sin() + 0.5 * x[:, 3] + 0.1 * torch.randn(count, generator=generator)
    return x, ((y - y.mean()) / y.std())[:, None]


@functools.cache
def clouds(count: int = 900, points: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    """Return sets of points in the plane on a ring, a disc or a cross."""
    generator = seeded(13)
    kind = torch.randint(0, 3, (count,), generator=generator)
    angle = torch.rand(count, points, generator=generator) * 6.28
    radius = torch.rand(count, points, generator=generator).sqrt()
    ring = torch.stack([angle.cos(), angle.sin()], -1)
    arm = (torch.rand(count, points, 1, generator=generator) < 0.5).float()
    side = torch.rand(count, points, 1, generator=generator) * 2 - 1
    cross = torch.cat([side * arm, side * (1 - arm)], -1)
    sets = torch.stack([ring, ring * radius[..., None], cross])[kind, torch.arange(count)]
    return sets + 0.05 * torch.randn(sets.shape, generator=generator), kind


def loaders(x: torch.Tensor, y: torch.Tensor, size: int = 32) -> tuple[DataLoader[Any], DataLoader[Any]]:
    """Return a shuffled training loader, and one of the last fifth."""
    cut = len(x) * 4 // 5
    return (
        DataLoader(TensorDataset(x[:cut], y[:cut]), size, shuffle=True),
        DataLoader(TensorDataset(x[cut:], y[cut:]), size),
    )


class SignalNet(nn.Module):
    """Two convolutions and a mean over time."""

    def __init__(self, norm: bool = False) -> None:
        super().__init__()
        self.stem = nn.Conv1d(1, 24, 7, padding=3)
        self.norm = nn.BatchNorm1d(24) if norm else nn.Identity()
        self.body = nn.Conv1d(24, 24, 5, padding=2)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(24, 4)

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        """Return four scores."""
        hidden = F.relu(self.norm(self.stem(signal[:, None])))
        return self.out(self.drop(F.relu(self.body(hidden)).mean(-1)))


class SetNet(nn.Module):
    """Every point alone, then the largest over all."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        self.point = nn.Sequential(nn.Linear(2, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU())
        self.set = nn.Sequential(nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, classes))

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        """Return the scores of the classes."""
        return self.set(self.point(points).amax(1))


def tower(inputs: int = 8, width: int = 48, outputs: int = 1, act: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    """Return three layers."""
    return nn.Sequential(nn.Linear(inputs, width), act(), nn.Linear(width, width), act(), nn.Linear(width, outputs))


def made(model: nn.Module, data: Any, loss_fn: Any, optimizer: Any, **more: Any) -> Made:
    """Return what `diagnose` takes."""
    train, val = data
    return {"model": model, "loader": train, "val_loader": val, "loss_fn": loss_fn, "optimizer": optimizer, **more}


def spread(model: nn.Module, std: float) -> nn.Module:
    """Draw every weight from a normal distribution."""
    for name, parameter in model.named_parameters():
        if name.endswith("weight"):
            nn.init.normal_(parameter, 0.0, std)
    return model
