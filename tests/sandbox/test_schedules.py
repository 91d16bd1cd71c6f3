"""Experiments run with the rate that a training is going to have, and not with the foot of its warm-up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

import nbdebug
from nbdebug.core.control import Control
from nbdebug.report.terminal import as_text
from nbdebug.sandbox import Sandbox, make_sandbox
from nbdebug.setup import Setup

BATCH = [(torch.randn(8, 4), torch.randint(0, 3, (8,)))]


def sandbox_of(schedule: Callable[[Any], Any], *, told: bool = True, steps: int = 0) -> Sandbox:
    """Make a copy of a small model whose optimizer, made with a rate of 0.1, is under a schedule."""
    model = nn.Linear(4, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    scheduler = schedule(optimizer)
    for _ in range(steps):
        model(BATCH[0][0]).sum().backward()
        optimizer.step()
        scheduler.step()
    before = optimizer.param_groups[0]["lr"]
    setup = Setup(model, BATCH, nn.CrossEntropyLoss(), optimizer, scheduler=scheduler if told else None)
    sandbox = make_sandbox(setup, Control())
    assert optimizer.param_groups[0]["lr"] == before
    return sandbox


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
    assert sandbox_of(schedule, told=told).optimizer.param_groups[0]["lr"] == pytest.approx(0.05)


@pytest.mark.parametrize("told", [True, False])
def test_leaves_a_falling_rate_alone(told: bool) -> None:
    """What a schedule has taken away in a training stays away."""
    sandbox = sandbox_of(lambda optimizer: lr_scheduler.ExponentialLR(optimizer, 0.5), told=told, steps=4)
    assert sandbox.optimizer.param_groups[0]["lr"] == pytest.approx(0.1 * 0.5**4)


def test_a_raised_rate_is_said_with_its_numbers() -> None:
    """In every form of the report, because every experiment depends on it."""
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    scheduler = lr_scheduler.LinearLR(optimizer, 1e-3, 1.0, 50)
    given = {"model": model, "loader": BATCH, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}
    report = nbdebug.diagnose(**given, scheduler=scheduler, checks=["update-ratio-off"], progress=False)
    (note,) = [note for note in report.notes if "learning rate" in note]
    for number in ("is 1e-06 at", "use 0.0005", "peak of 0.001"):
        assert number in note
    assert note in report.to_dict()["notes"]
    assert note in " ".join(as_text(report).split())
    assert note.split("'")[0] in report._repr_html_()


def test_a_rate_that_stays_is_not_spoken_of() -> None:
    """No schedule, or one that only falls."""
    assert not sandbox_of(lambda optimizer: lr_scheduler.ExponentialLR(optimizer, 0.9)).notes
    assert not sandbox_of(lambda optimizer: lr_scheduler.ExponentialLR(optimizer, 0.9), told=False, steps=3).notes


def test_the_end_of_an_unseen_schedule_is_no_training() -> None:
    """With a rate of zero no experiment would show anything."""
    sandbox = sandbox_of(lambda optimizer: lr_scheduler.LinearLR(optimizer, 1.0, 0.0, 5), told=False, steps=5)
    assert sandbox.optimizer.param_groups[0]["lr"] == pytest.approx(0.05)
    assert "0.05" in sandbox.notes[0]


def test_a_negative_rate_and_one_that_the_optimizer_finds_itself_stay() -> None:
    """Only a schedule raises a rate."""
    for rate in (-0.1, None):
        model = nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer.param_groups[0]["lr"] = rate
        sandbox = make_sandbox(Setup(model, BATCH, nn.CrossEntropyLoss(), optimizer), Control())
        assert sandbox.optimizer.param_groups[0]["lr"] == rate
