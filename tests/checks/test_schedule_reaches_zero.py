"""Schedules that end at once, and schedules that are as long as a training."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.optim import lr_scheduler

import nbdebug
from tests import loops
from tests.examples import failing_example


def scheduled(make: Any) -> dict[str, Any]:
    """Return the healthy set-up with a scheduler."""
    made = loops.setup(None, 0.1, torch.optim.SGD)
    return {**made, "scheduler": make(made["optimizer"])}


@failing_example("schedule-reaches-zero", where="scheduler")
def exponential_with_a_slip() -> dict[str, Any]:
    """The factor was meant to be 0.9."""
    return scheduled(lambda optimizer: lr_scheduler.ExponentialLR(optimizer, gamma=0.09))
    # fixed: return scheduled(lambda optimizer: lr_scheduler.ExponentialLR(optimizer, gamma=0.9))


@failing_example("schedule-reaches-zero", where="scheduler")
def lambda_that_is_zero() -> dict[str, Any]:
    """An integer division gives zero at once."""
    return scheduled(lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda step: 1 // (step + 1)))


@pytest.mark.parametrize(
    "make",
    [
        lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, T_max=500),
        lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, T_max=10),
        lambda optimizer: lr_scheduler.StepLR(optimizer, step_size=30, gamma=0.1),
        lambda optimizer: lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=200),
        lambda optimizer: lr_scheduler.LinearLR(optimizer, start_factor=0.01, total_iters=100),
        lambda optimizer: lr_scheduler.ExponentialLR(optimizer, gamma=0.9),
        lambda optimizer: lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=10),
    ],
)
def test_usual_schedules_are_clean(make: Any) -> None:
    """A schedule that ends near zero at its end is what schedules are for."""
    report = nbdebug.diagnose(**scheduled(make), checks=["schedule-reaches-zero"], progress=False)
    assert report.results[0].status == "clean", report.findings


@pytest.mark.parametrize("size", [1, 7])
def test_schedules_of_few_epochs_are_no_alarm_where_the_training_learns(size: int) -> None:
    """Fourteen epochs of `gamma=0.7`, or 35 with a tenth every seventh, end near zero as they should."""
    gamma = {1: 0.7, 7: 0.1}[size]
    made = scheduled(lambda optimizer: lr_scheduler.StepLR(optimizer, size, gamma))
    report = nbdebug.diagnose(**made, checks=["schedule-reaches-zero", "training-fails"], progress=False)
    assert not report.alarms, report.alarms


def test_plateau_scheduler_is_skipped() -> None:
    """A scheduler that follows a metric cannot be run ahead."""
    report = nbdebug.diagnose(
        **scheduled(lr_scheduler.ReduceLROnPlateau), checks=["schedule-reaches-zero"], progress=False
    )
    assert report.results[0].status == "skipped"


@failing_example("schedule-reaches-zero", where="scheduler")
def zero_from_the_beginning() -> dict[str, Any]:
    """A warm-up that was meant to rise, and rounds down."""
    return scheduled(lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda step: min(step, 0)))


@failing_example("schedule-reaches-zero", where="plateau")
def loss_to_be_maximized() -> dict[str, Any]:
    """The rate is halved as long as the loss falls."""
    made = loops.setup(None, 0.1, torch.optim.SGD)
    mode = "max"  # fixed: mode = "min"
    plateau = lr_scheduler.ReduceLROnPlateau(made["optimizer"], mode=mode, factor=0.5, patience=50)

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
        loss = loops.right(model, batch, loss_fn, optimizer)
        plateau.step(loss.item())
        return loss

    return {**made, "train_step": step}
