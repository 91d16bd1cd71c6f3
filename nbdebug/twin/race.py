"""A short training in the way of the books, for experiments that compare two starts or two settings."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import torch

from nbdebug.subject import Batch
from nbdebug.subject.drawing import seed_torch
from nbdebug.twin import Twin

__all__ = ["plain_adam", "race"]

STEPS = 40
SECONDS = 10.0  # for one training; what it has come to by then is compared
SEED = 0


def plain_adam(twin: Twin, lr: float = 1e-3) -> Any:
    """Give an Adam of the usual kind for everything of the twin that can learn."""
    return torch.optim.Adam([p for p in twin.model.parameters() if p.requires_grad], lr=lr)


def race(
    twin: Twin,
    batches: list[Batch],
    optimizer: Any,
    steps: int = STEPS,
    tell: Callable[[float], None] = lambda _: None,
) -> tuple[float, ...]:
    """Train over these batches in turn and give the losses; it ends early when they are not finite or time is up."""
    seed_torch(SEED)
    end = time.monotonic() + SECONDS
    twin.ready_to_train()
    losses: list[float] = []
    for step in range(steps):
        tell(step / steps)
        optimizer.zero_grad()
        loss = twin.run(batches[step % len(batches)]).loss
        losses.append(float(loss.detach()))
        if not math.isfinite(losses[-1]) or not loss.requires_grad or time.monotonic() > end:
            break
        loss.backward()
        optimizer.step()
    return tuple(losses)
