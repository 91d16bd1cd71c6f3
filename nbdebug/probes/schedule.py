"""Let a scheduler run ahead without training; one that only the user's own step knows runs with it."""

from __future__ import annotations

import copy

import torch

from nbdebug.control import Control
from nbdebug.errors import NbdebugError, NotApplicable, OutOfTime
from nbdebug.evidence import Schedule
from nbdebug.registry import probe
from nbdebug.twin import Twin
from nbdebug.twin.schedules import rates_ahead, rates_now

__all__ = ["schedule"]

GLANCE = 3  # calls of the step that show whether it touches the rate
CALLS = 75
SECONDS = 10.0


@probe
def schedule(twin: Twin, control: Control) -> Schedule:
    """Step a copy of the scheduler through a training run and record the learning rates."""
    if twin.scheduler is None:
        return _within_the_step(twin, control)
    if isinstance(twin.scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
        raise NotApplicable("the scheduler depends on a metric, so it cannot be simulated")
    _as_it_stands(twin)
    rates = [max(each) for each in rates_ahead(twin.optimizer, twin.scheduler, twin.control)]
    return Schedule(type(twin.scheduler).__name__, tuple(rates), twin.subject.feed.batch_count)


def _as_it_stands(twin: Twin) -> None:
    """Give the twin the user's own learning rates, because other experiments begin behind the warm-up."""
    if twin.subject.optimizer is not None:
        for group, live in zip(twin.optimizer.param_groups, twin.subject.optimizer.param_groups, strict=False):
            group["lr"] = copy.copy(live["lr"])


def _within_the_step(twin: Twin, control: Control) -> Schedule:
    """Call the user's step on one batch again and again, where a few calls show that it changes the learning rate."""
    if twin.train_step is None or control.quick:
        raise NotApplicable("no scheduler was passed")
    _as_it_stands(twin)
    twin.ready_to_train()
    batch, rates = twin.batch(), [max(rates_now(twin.optimizer))]
    try:
        with control.limit(SECONDS):
            for call in range(CALLS):
                control.progress(call / CALLS, "recording the learning rate of your training step")
                twin.user_step(batch.clone())
                rates.append(max(rates_now(twin.optimizer)))
                if call + 1 == GLANCE and len(set(rates)) == 1:
                    raise NotApplicable("no scheduler was passed, and train_step does not change the learning rate")
    except OutOfTime:
        if control.is_over:
            raise
    except NbdebugError:
        raise
    except Exception as error:
        raise NotApplicable(f"train_step fails: {type(error).__name__}: {error}") from None
    return Schedule("your train_step", tuple(rates), twin.subject.feed.batch_count, in_step=True)
