"""Small trainings that the tests of the recorder watch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import nbdebug

__all__ = ["batch", "mlp", "train"]


def mlp(inplace: bool = False) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(20, 64), nn.ReLU(inplace=inplace), nn.Linear(64, 64), nn.ReLU(inplace=inplace), nn.Linear(64, 3)
    )


def batch(number: int, size: int = 32) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(number)
    x = torch.randn(size, 20, generator=generator)
    return x, x[:, :3].argmax(dim=1)


def train(
    model: nn.Module,
    optimizer: Any,
    steps: int = 20,
    *,
    before_step: Callable[[], Any] = lambda: None,
    after_step: Callable[[], Any] = lambda: None,
) -> list[float]:
    """Train as everybody does, and give the losses."""
    losses = []
    for number in range(steps):
        x, y = batch(number)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        before_step()
        optimizer.step()
        after_step()
        losses.append(loss.item())
    return losses


def watched(
    model: nn.Module, optimizer: Any, steps: int = 20, *, after_step: Callable[[], Any] = lambda: None, **options: Any
) -> tuple[nbdebug.watch.Live, list[float]]:
    """Train under watch."""
    with nbdebug.watch(model, optimizer, **{"every": 1, "budget": 1.0, **options}) as live:
        losses = train(model, optimizer, steps, after_step=after_step)
    return live, losses
