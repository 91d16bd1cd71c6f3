"""Training steps with one thing wrong, and ones that are right, for tests and failing examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tests.zoo.tabular import digits

Step = Callable[..., Any]


def mlp(*last: nn.Module, width: int = 64) -> nn.Sequential:
    """Return the plain network on digits, with perhaps something behind it."""
    return nn.Sequential(
        nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10), *last
    )


def setup(step: Step | None = None, lr: float = 1e-3, make: Any = torch.optim.Adam, **options: Any) -> dict[str, Any]:
    """Return the healthy set-up on digits with this training step and optimizer."""
    model = mlp()
    chosen = {"train_step": step} if step is not None else {}
    optimizer = make(model.parameters(), lr=lr, **options)
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **chosen}


def right(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
    """Do everything in the right order."""
    optimizer.zero_grad()
    loss = loss_fn(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss


def without_zero_grad(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
    """Forget to clear the gradients."""
    loss = loss_fn(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss.item()


def without_backward(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
    """Forget backward."""
    optimizer.zero_grad()
    loss = loss_fn(model(batch[0]), batch[1])
    optimizer.step()
    return loss


def without_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
    """Forget the step."""
    optimizer.zero_grad()
    loss = loss_fn(model(batch[0]), batch[1])
    loss.backward()
    return loss


def zeroed_too_late(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
    """Clear the gradients between backward and step."""
    loss = loss_fn(model(batch[0]), batch[1])
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    return loss


def accumulating(every: int = 4) -> Step:
    """Make a step that takes one optimizer step for several batches, which is fine."""
    seen = 0

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
        nonlocal seen
        loss = loss_fn(model(batch[0]), batch[1]) / every
        loss.backward()
        seen += 1
        if seen % every == 0:
            optimizer.step()
            optimizer.zero_grad()
        return loss

    return step


def clipped(at: float) -> Step:
    """Make a step that clips the gradient's norm."""

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), at)
        optimizer.step()
        return loss

    return step


def hoarding() -> Step:
    """Make a step that adds up losses with their graphs."""
    total: Any = 0.0

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
        nonlocal total
        loss = right(model, batch, loss_fn, optimizer)
        total = total + loss  # fixed: total = total + loss.item()
        return loss

    return step
