"""What a scheduler is going to do, found out without training."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from typing import Any

import torch

from nbdebug.core.control import Control
from nbdebug.setup import Setup

__all__ = ["cruise", "made_with", "rate_of", "rates_ahead", "rates_now"]

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


def cruise(setup: Setup, optimizer: Any, scheduler: Any, control: Control) -> list[str]:
    """Raise the learning rates of an optimizer at the foot of a warm-up to half of what the schedule reaches.

    An experiment steps no scheduler, so it would judge the whole training by its first, tiny steps. Return a sentence
    with the numbers where a rate was raised, because every experiment depends on it.
    """
    if optimizer is None:
        return []
    if setup.highest_rates is None:
        known = scheduler is not None
        live = setup.optimizer if setup.optimizer is not None else optimizer  # whose state is there without a copy
        setup.highest_rates = _highest(optimizer, scheduler, control) if known else _intended(live)
    raised: list[str] = []
    for index, (group, highest) in enumerate(zip(optimizer.param_groups, setup.highest_rates, strict=False)):
        now = rate_of(group)
        if now is not None and highest > 0 and CRUISING * highest > now:
            used = CRUISING * highest
            group["lr"] = torch.full_like(group["lr"], used) if isinstance(group["lr"], torch.Tensor) else used
            of = f" in param_groups[{index}]" if len(optimizer.param_groups) > 1 else ""
            raised.append(_raised(now, used, highest, of, scheduler is not None))
    return [f"{'; '.join(raised)}."] if raised else []


def _raised(now: float, used: float, highest: float, of: str, known: bool) -> str:
    if known:
        return (
            f"The learning rate{of} is {now:g} at this point of the schedule; experiments use {used:g}, half of the "
            f"schedule's peak of {highest:g}"
        )
    return (
        f"The learning rate{of} is {now:g}, below the {highest:g} that the optimizer was made with, so a scheduler "
        f"that was not passed seems to set it; experiments use {used:g}, half of that"
    )


def _highest(optimizer: Any, scheduler: Any, control: Control) -> tuple[float, ...]:
    """Return the highest rate of each group, or nothing where the future is not known."""
    if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
        return ()
    shared = {id(p): p for group in optimizer.param_groups for p in group["params"]}
    try:
        ahead = rates_ahead(*copy.deepcopy((optimizer, scheduler), shared), control)
    except (TypeError, RuntimeError, AttributeError):  # one that asks for a metric, or cannot be copied
        return ()
    return tuple(max(rates) for rates in zip(*ahead, strict=True))


def _intended(optimizer: Any) -> tuple[float, ...]:
    """Return the rates that the optimizer was made with where an unseen scheduler lowered them before the first step.

    In the middle of a training a lower rate is more likely the end of a schedule than its beginning, so it stays; only
    a rate of zero, with which no experiment shows anything, does not.
    """
    started = bool(getattr(optimizer, "state", None))
    return tuple(0.0 if started and rate_of(group) != 0 else made_with(group) for group in optimizer.param_groups)


def made_with(group: Mapping[str, Any]) -> float:
    """Return the rate that a scheduler noted when it took over this group, or 0: its start, or the peak of a cycle."""
    return max(float(group.get(name) or 0.0) for name in ("initial_lr", "max_lr"))


def rate_of(group: Mapping[str, Any]) -> float | None:
    """Return the learning rate of one group; None where the optimizer finds its own."""
    rate = group.get("lr")
    return None if rate is None else float(rate)


def rates_now(optimizer: Any) -> tuple[float, ...]:
    """Return the learning rates of all groups."""
    return tuple(rate_of(group) or 0.0 for group in optimizer.param_groups)
