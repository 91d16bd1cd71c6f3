"""Experiments run with the rate that a training is going to have, and not with the foot of its warm-up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from nbdebug.control import Control
from nbdebug.subject import Subject
from nbdebug.twin import Twin, make_twin

BATCH = [(torch.randn(8, 4), torch.randint(0, 3, (8,)))]


def twin_of(schedule: Callable[[Any], Any], *, told: bool = True, steps: int = 0) -> Twin:
    """Make a twin of a small model whose optimizer, made with a rate of 0.1, is under a schedule."""
    model = nn.Linear(4, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    scheduler = schedule(optimizer)
    for _ in range(steps):
        model(BATCH[0][0]).sum().backward()
        optimizer.step()
        scheduler.step()
    before = optimizer.param_groups[0]["lr"]
    subject = Subject(model, BATCH, nn.CrossEntropyLoss(), optimizer, scheduler=scheduler if told else None)
    twin = make_twin(subject, Control())
    assert optimizer.param_groups[0]["lr"] == before
    return twin


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize(
    "schedule",
    [
        lambda optimizer: lr_scheduler.LinearLR(optimizer, 0.01, 1.0, 30),
        lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda step: min(step / 30, 1.0)),
        lambda optimizer: lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=100),
    ],
    ids=["a hundredth", "nothing", "one cycle"],
)
def test_begins_behind_the_warm_up(schedule: Callable[[Any], Any], told: bool) -> None:
    """Half of the peak, also where only the groups tell of the scheduler."""
    assert twin_of(schedule, told=told).optimizer.param_groups[0]["lr"] == pytest.approx(0.05)


@pytest.mark.parametrize("told", [True, False])
def test_leaves_a_falling_rate_alone(told: bool) -> None:
    """What a schedule has taken away in a training stays away."""
    twin = twin_of(lambda optimizer: lr_scheduler.ExponentialLR(optimizer, 0.5), told=told, steps=4)
    assert twin.optimizer.param_groups[0]["lr"] == pytest.approx(0.1 * 0.5**4)
