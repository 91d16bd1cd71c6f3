"""Schedules that count batches as epochs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from tests.checks.networks import WIDTH, alarms, loader
from tests.examples import failing_example

CHECK = "schedule-unit-wrong"
BATCHES = 40


def setup(
    make: Callable[[Any], Any], *, per_batch: bool = True, width: int = 16, epoch: bool = False
) -> dict[str, Any]:
    """Return a step that steps this scheduler, in each batch or after an epoch."""
    model = nn.Sequential(nn.Linear(WIDTH, width), nn.ReLU(), nn.Linear(width, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scheduler, calls = make(optimizer), [0]

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        calls[0] += 1
        if per_batch or (epoch and calls[0] % BATCHES == 0):
            scheduler.step()
        return loss + 0.0 * scheduler.last_epoch

    batches = loader(targets=True, size=4 * BATCHES, batch_size=4)
    return {"model": model, "loader": batches, "optimizer": optimizer, "train_step": step}


@failing_example(CHECK, where="scheduler")
def steps_of_ten_epochs() -> dict[str, Any]:
    """The rate is divided by ten after every ten batches."""
    return setup(lambda o: lr_scheduler.StepLR(o, 10))  # fixed: return setup(lambda o: lr_scheduler.StepLR(o, 400))


@failing_example(CHECK, where="scheduler")
def cosine_of_ten_epochs() -> dict[str, Any]:
    """It comes back, and falls again."""
    return setup(lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=10), width=8)


@failing_example(CHECK, where="scheduler")
def decay_per_epoch() -> dict[str, Any]:
    """A tenth less in every batch."""
    return setup(lambda o: lr_scheduler.ExponentialLR(o, 0.88), width=32)


@failing_example(CHECK, where="scheduler")
def warm_up_never_stepped() -> dict[str, Any]:
    """The rate stays at a thousandth."""
    return setup(lambda o: lr_scheduler.LinearLR(o, 0.001, 1.0, 100), per_batch=False)


@pytest.mark.parametrize(
    ("make", "how"),
    [
        (lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=BATCHES), {}),
        (lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=5 * BATCHES), {}),
        (lambda o: lr_scheduler.CosineAnnealingLR(o, 3 * BATCHES), {}),
        (lambda o: lr_scheduler.LinearLR(o, 1.0, 0.0, BATCHES), {}),
        (lambda o: lr_scheduler.LinearLR(o, 0.001, 1.0, BATCHES), {}),
        (lambda o: lr_scheduler.StepLR(o, 10), {"per_batch": False, "epoch": True}),
        (lambda o: lr_scheduler.CyclicLR(o, 0.001, 0.1, step_size_up=8), {}),
        (lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 10), {}),
    ],
    ids=["one cycle", "five epochs", "cosine", "linear", "warm-up", "per epoch", "cyclic", "restarts"],
)
def test_silent(make: Any, how: dict[str, Any]) -> None:
    assert not alarms(CHECK, **setup(make, **how))
