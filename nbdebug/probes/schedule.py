"""Let a scheduler run ahead without training."""

from __future__ import annotations

import warnings

import torch

from nbdebug.errors import NotApplicable
from nbdebug.evidence import Schedule
from nbdebug.registry import probe
from nbdebug.twin import Twin

__all__ = ["schedule"]

STEPS = 2000


@probe
def schedule(twin: Twin) -> Schedule:
    """Step a copy of the scheduler as often as a training would and note the learning rates."""
    if twin.scheduler is None:
        raise NotApplicable("no scheduler was given")
    if isinstance(twin.scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
        raise NotApplicable("the scheduler follows a metric, so its future is not known")
    for parameter in twin.model.parameters():
        parameter.grad = None  # so that the optimizer's steps change nothing
    rates = [_rate(twin)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(STEPS):
            twin.control.poll()
            try:
                twin.optimizer.step()
                twin.scheduler.step()
            except ValueError:  # OneCycleLR says so when its steps are used up
                break
            rates.append(_rate(twin))
    return Schedule(type(twin.scheduler).__name__, tuple(rates), twin.subject.feed.batch_count)


def _rate(twin: Twin) -> float:
    return max(float(group["lr"]) for group in twin.optimizer.param_groups)
