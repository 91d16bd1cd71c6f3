"""Let a scheduler run ahead without training."""

from __future__ import annotations

import copy

import torch

from nbdebug.errors import NotApplicable
from nbdebug.evidence import Schedule
from nbdebug.registry import probe
from nbdebug.twin import Twin
from nbdebug.twin.schedules import rates_ahead

__all__ = ["schedule"]


@probe
def schedule(twin: Twin) -> Schedule:
    """Step a copy of the scheduler as often as a training would and note the learning rates."""
    if twin.scheduler is None:
        raise NotApplicable("no scheduler was given")
    if isinstance(twin.scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
        raise NotApplicable("the scheduler follows a metric, so its future is not known")
    if twin.subject.optimizer is not None:
        for group, live in zip(twin.optimizer.param_groups, twin.subject.optimizer.param_groups, strict=False):
            group["lr"] = copy.copy(live["lr"])  # other experiments begin behind the warm-up
    rates = [max(each) for each in rates_ahead(twin.optimizer, twin.scheduler, twin.control)]
    return Schedule(type(twin.scheduler).__name__, tuple(rates), twin.subject.feed.batch_count)
