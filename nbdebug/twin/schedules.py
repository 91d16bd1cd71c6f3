"""What a scheduler is going to do, found out without training."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import torch

from nbdebug.control import Control
from nbdebug.subject import Subject

__all__ = ["cruise", "rates_ahead", "rates_now"]

STEPS = 2000
CRUISING = 0.5  # of the peak: about the mean of a rate that rises to it from nothing, or falls from it to nothing


def rates_ahead(optimizer: Any, scheduler: Any, control: Control) -> list[tuple[float, ...]]:
    """Step a scheduler as often as a training would, and give the learning rates of all groups each time."""
    rates = [rates_now(optimizer)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the optimizer takes no steps is on purpose
        for _ in range(STEPS):
            control.poll()
            try:
                scheduler.step()
            except ValueError:  # OneCycleLR says so when its steps are used up
                break
            rates.append(rates_now(optimizer))
    return rates


def cruise(subject: Subject, optimizer: Any, scheduler: Any, control: Control) -> None:
    """Give an optimizer that stands at the foot of a warm-up about the rates that the training is going to have.

    An experiment steps no scheduler, so it would judge the whole training by its first, tiny steps.
    """
    if optimizer is None:
        return
    if subject.highest_rates is None:
        known = scheduler is not None
        subject.highest_rates = _highest(optimizer, scheduler, control) if known else _intended(optimizer)
    for group, highest in zip(optimizer.param_groups, subject.highest_rates, strict=False):
        if "lr" in group and CRUISING * highest > float(group["lr"]):
            is_tensor = isinstance(group["lr"], torch.Tensor)
            group["lr"] = torch.full_like(group["lr"], CRUISING * highest) if is_tensor else CRUISING * highest


def _highest(optimizer: Any, scheduler: Any, control: Control) -> tuple[float, ...]:
    """Give the highest rate of each group, or nothing where the future is not known."""
    if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
        return ()
    shared = {id(p): p for group in optimizer.param_groups for p in group["params"]}
    try:
        ahead = rates_ahead(*copy.deepcopy((optimizer, scheduler), shared), control)
    except (TypeError, RuntimeError, AttributeError):  # one that asks for a metric, or cannot be copied
        return ()
    return tuple(max(rates) for rates in zip(*ahead, strict=True))


def _intended(optimizer: Any) -> tuple[float, ...]:
    """Give the rates that the optimizer was made with where an unseen scheduler lowered them before the first step."""
    if getattr(optimizer, "state", None):
        return ()  # in the middle of a training, a lower rate is more likely the end of a schedule than its beginning
    named = ("initial_lr", "max_lr")  # what every scheduler notes in a group, and what those of a cycle do
    return tuple(max(float(group.get(name, 0.0)) for name in named) for group in optimizer.param_groups)


def rates_now(optimizer: Any) -> tuple[float, ...]:
    """Give the learning rates of all groups."""
    return tuple(float(group.get("lr", 0.0)) for group in optimizer.param_groups)
