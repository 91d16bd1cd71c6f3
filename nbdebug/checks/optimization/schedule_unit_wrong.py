"""A schedule made for epochs that is stepped per batch, or one that is never stepped."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.charts import Lines
from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.schedule import as_it_stands
from nbdebug.evidence.step_events import StepEvents
from nbdebug.experiments.reached_parts import reached_parts
from nbdebug.sandbox import Sandbox
from nbdebug.sandbox.schedules import rates_ahead, rates_now

__all__ = ["StepSchedule", "StepSchedules", "schedule_unit_wrong", "step_schedules"]


@dataclass(frozen=True)
class StepSchedule:
    """A scheduler of the training step: whether each call steps it, and the learning rates it gives per own step.

    `period` is the `T_max` of a cosine that rises again after it; 0 for others.
    """

    name: str
    kind: str
    each_call: bool
    now: float
    rates: tuple[float, ...]
    period: int = 0


@dataclass(frozen=True)
class StepSchedules:
    """All schedulers that the training step names, and the batches of an epoch."""

    schedules: tuple[StepSchedule, ...]
    batches: int


@probe
def step_schedules(sandbox: Sandbox, events: StepEvents) -> StepSchedules:
    """Run copies of the schedulers that your training step uses ahead of it."""
    batches = sandbox.setup.feed.batch_count
    if not events.is_step or batches is None:
        raise NotApplicable("no train_step was passed, or the number of batches is not known")
    as_it_stands(sandbox)
    reached = reached_parts(sandbox)
    found = [
        _ahead(sandbox, name, scheduler, name in events.schedulers)
        for name, scheduler in reached.schedulers.items()
        if (name in events.schedulers or name in reached.named)
        and not isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)
    ]
    if not found:
        raise NotApplicable("the training step uses no scheduler")
    return StepSchedules(tuple(found), batches)


def _ahead(sandbox: Sandbox, name: str, scheduler: Any, each_call: bool) -> StepSchedule:
    shared = {id(p): p for group in scheduler.optimizer.param_groups for p in group["params"]}
    optimizer, copied = copy.deepcopy((scheduler.optimizer, scheduler), shared)
    rates = [max(each) for each in rates_ahead(optimizer, copied, sandbox.control)]
    period = scheduler.T_max if isinstance(scheduler, torch.optim.lr_scheduler.CosineAnnealingLR) else 0
    now = max(rates_now(scheduler.optimizer))
    return StepSchedule(name, type(scheduler).__name__, each_call, now, tuple(rates), int(period))


PER_EPOCH = """for epoch in range(epochs):
    for batch in loader:
        train_step(batch)
    scheduler.step()"""
STEPPED = "optimizer.step()\nscheduler.step()"


# They fall on for ever, so that the end of the first epoch is no end of theirs.
ENDLESS = ("ExponentialLR", "MultiplicativeLR", "StepLR")


@check(explains=("schedule-reaches-zero", "learning-rate-too-low", "loss-flat", "still-improving"))
def schedule_unit_wrong(
    steps: StepSchedules,
    *,
    least: int = 20,  # batches of an epoch; with fewer, a schedule per batch may be meant; our choice
    within: float = 0.75,  # of the first epoch; a schedule for one epoch has a tenth of its peak there; our choice
    low: float = 0.05,  # of the highest rate: cosine and linear schedules reach it only near their end; our choice
    nothing: float = 0.01,  # of the highest rate: warm-ups start at or below it; our choice
) -> Iterator[Finding]:
    """A scheduler made for epochs is stepped in every batch, or a warm-up is never stepped.

    nbdebug calls your training step on a copy, sees which schedulers each call steps, and runs copies of them ahead. It
    reports one that has lowered the learning rate to almost nothing within the first epoch, a cosine that falls and
    rises several times within an epoch, and a warm-up that starts near zero and that the step names but never steps.

    Why it matters: `StepLR(step_size=10)` means ten epochs. Stepped per batch, it has divided the learning rate by a
    million before the first epoch ends.

    What to try: move `scheduler.step()` behind the loop over the batches, or give the scheduler its length in batches.
    """
    for schedule in steps.schedules:
        batches, highest = steps.batches, max(schedule.rates)
        if highest <= 0:
            continue
        if not schedule.each_call:
            if schedule.now < nothing * highest:
                says = (
                    f"`{schedule.name}` is never stepped by `train_step`: the learning rate stays at "
                    f"{schedule.now:.2g} (peak {highest:.2g})."
                )
                yield _finding(schedule, batches, says, Remedy("Step it after the optimizer.", STEPPED))
            continue
        if batches < least:
            continue
        begin = batches if schedule.kind in ENDLESS else int(within * batches)
        later = schedule.rates[begin : 3 * batches]
        remedy = Remedy("Step it once per epoch.", PER_EPOCH)
        if later and len(schedule.rates) > batches and max(later) < low * highest:
            fallen = next(i for i, rate in enumerate(schedule.rates) if i and rate < low * highest)
            says = (
                f"`{schedule.name}` ({schedule.kind}) is stepped in every batch: the learning rate falls below "
                f"{low:.0%} of its peak after {fallen} of the {batches} batches of the first epoch."
            )
            yield _finding(schedule, batches, says, remedy)
        elif 0 < 2 * schedule.period <= batches:
            says = (
                f"`{schedule.name}` ({schedule.kind}, T_max={schedule.period}) is stepped in every batch: the learning "
                f"rate falls and rises again {batches // (2 * schedule.period)} times per epoch."
            )
            yield _finding(schedule, batches, says, remedy)


def _finding(schedule: StepSchedule, batches: int, says: str, remedy: Remedy) -> Finding:
    shown = schedule.rates[: 2 * batches]
    return Finding(
        says,
        where=schedule.name,
        severity="suspect",
        evidence={
            "batches of an epoch": batches,
            "stepped in each call": schedule.each_call,
            "first rate": schedule.rates[0],
            "rate after an epoch": schedule.rates[min(batches, len(schedule.rates) - 1)],
            "threshold": "above 5 % of the peak for most of the first epoch",
            "source": "torch.optim.lr_scheduler",
        },
        remedies=(remedy, Remedy("Or give it its length in batches.", "T_max = epochs * len(loader)")),
        exhibit=Lines(
            (("learning rate", tuple(map(float, range(len(shown)))), shown),),
            title="Learning rate per step of the scheduler",
            y_label="learning rate",
        ),
    )
