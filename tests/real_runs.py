"""Real trainings under watch, for the failing examples and the healthy runs of what is judged from recordings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

import nbdebug
from nbdebug.evidence.recording import Recording
from tests.examples import Healthy
from tests.training import train
from tests.zoo.tabular import digits


def mlp(*between: nn.Module, width: int = 32) -> nn.Sequential:
    """Return a small network on digits."""
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), *between, nn.Linear(width, 10))


def endless(loader: Iterable[Any]) -> Iterable[Any]:
    """Return one epoch after the other."""
    while True:
        yield from loader


def watched(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    steps: int = 300,
    batches: Iterable[Any] | None = None,
    loss_fn: Callable[..., torch.Tensor] = nn.functional.cross_entropy,
    change: Callable[[int, Any], Any] = lambda step, batch: batch,
    fixed: torch.Tensor | None = None,
) -> dict[str, Recording]:
    """Train in a plain loop under watch, changing a batch where that is the illness, and give the recording."""
    with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
        if fixed is not None:
            nbdebug.follow_predictions(live, fixed, every=max(1, steps // 30))
        for step, batch in zip(range(steps), endless(digits() if batches is None else batches), strict=False):
            x, y = change(step, batch)
            optimizer.zero_grad()
            loss_fn(model(x), y).backward()
            optimizer.step()
    return {"recording": live.recording()}


def watched_zoo(healthy: Healthy, seed: int) -> nbdebug.Report:
    """Train a healthy set-up as its user would, under watch, and judge the recording."""
    torch.manual_seed(seed)
    setup = healthy.make()
    with nbdebug.watch(setup["model"], setup["optimizer"]) as live:
        train(setup, healthy.epochs)
    return live.report()
