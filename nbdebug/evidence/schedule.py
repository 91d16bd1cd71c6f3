"""Let a scheduler run ahead without training; one that only the user's own step knows runs with it."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch

from nbdebug.core.control import Control
from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.sandbox import Sandbox
from nbdebug.sandbox.schedules import rates_ahead, rates_now
from nbdebug.setup.user_code import required_user_code

__all__ = ["Schedule", "as_it_stands", "schedule"]


@dataclass(frozen=True)
class Schedule:
    """The learning rates that a scheduler would give, step by step; `in_step` says that train_step itself steps it."""

    name: str
    rates: tuple[float, ...]
    in_step: bool = False
    places: tuple[int, ...] = ()  # the steps of a real training to which the rates belong, where it was watched


GLANCE = 3  # calls of the step that show whether it touches the rate
CALLS = 75


@probe
def schedule(sandbox: Sandbox, control: Control) -> Schedule:
    """Step a copy of the scheduler through a training run and record the learning rates."""
    if sandbox.scheduler is None:
        return _within_the_step(sandbox, control)
    if isinstance(sandbox.scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
        raise NotApplicable("the scheduler depends on a metric, so it cannot be simulated")
    as_it_stands(sandbox)
    rates = [max(each) for each in rates_ahead(sandbox.optimizer, sandbox.scheduler, sandbox.control)]
    return Schedule(type(sandbox.scheduler).__name__, tuple(rates))


def as_it_stands(sandbox: Sandbox) -> None:
    """Return the copy the user's own learning rates, because other experiments begin behind the warm-up."""
    if sandbox.setup.optimizer is not None:
        for group, live in zip(sandbox.optimizer.param_groups, sandbox.setup.optimizer.param_groups, strict=False):
            group["lr"] = copy.copy(live["lr"])


def _within_the_step(sandbox: Sandbox, control: Control) -> Schedule:
    """Call the user's step on one batch again and again, where a few calls show that it changes the learning rate."""
    if sandbox.train_step is None or control.quick:
        raise NotApplicable("no scheduler was passed")
    as_it_stands(sandbox)
    sandbox.ready_to_train()
    batch, rates = sandbox.batch(), [max(rates_now(sandbox.optimizer))]
    with required_user_code("train_step fails: {kind}: {message}"):
        for call in control.as_many(range(CALLS)):
            control.progress(call / CALLS, "recording the learning rate of your training step")
            sandbox.user_step(batch.clone())
            rates.append(max(rates_now(sandbox.optimizer)))
            if call + 1 == GLANCE and len(set(rates)) == 1:
                raise NotApplicable("no scheduler was passed, and train_step does not change the learning rate")
    return Schedule("your train_step", tuple(rates), in_step=True)
