"""A short training in the way of the books, for experiments that compare two starts or two settings."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.sample_dataset import seed_torch

__all__ = ["final_loss", "plain_adam", "race"]


def final_loss(losses: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Return where a curve ends: the mean of its last fifth, over the steps that the other curve has as well.

    A curve that stopped because its loss was not finite ends there, however short it is.
    """
    if not math.isfinite(losses[-1]):
        return losses[-1]
    steps = min(len(losses), len(other)) if math.isfinite(other[-1]) else len(losses)
    tail = max(1, steps // 5)
    return sum(losses[steps - tail : steps]) / tail


STEPS = 40
SEED = 0


def plain_adam(sandbox: Sandbox, lr: float = 1e-3) -> Any:
    """Return an Adam of the usual kind for everything of the copy that can learn."""
    return torch.optim.Adam([p for p in sandbox.model.parameters() if p.requires_grad], lr=lr)


def race(
    sandbox: Sandbox,
    batches: list[Batch],
    optimizer: Any,
    steps: int = STEPS,
    tell: Callable[[float], None] = lambda _: None,
) -> tuple[float, ...]:
    """Train over these batches in turn and give the losses; it ends early when they are not finite."""
    seed_torch(SEED)
    sandbox.ready_to_train()
    losses: list[float] = []
    for step in sandbox.control.as_many(range(steps), part=0.4, agreed=f"textbook training of {steps} steps"):
        tell(step / steps)
        optimizer.zero_grad()
        loss = sandbox.run(batches[step % len(batches)]).loss
        losses.append(float(loss.detach()))
        if not math.isfinite(losses[-1]) or not loss.requires_grad:
            break
        loss.backward()
        optimizer.step()
    return tuple(losses)
