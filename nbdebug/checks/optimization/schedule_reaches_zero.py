"""The schedule drives the learning rate to zero too early."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nbdebug.charts import Lines
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.schedule import Schedule
from nbdebug.evidence.step_calls import StepCalls

__all__ = ["schedule_reaches_zero"]

LONGER = Remedy(
    "Match the length of the schedule to the training.",
    "torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs * len(loader))",
    Patch("slow-schedule", {"times": 100}),
)
ONCE_AN_EPOCH = Remedy(
    "If the schedule counts epochs, step it once per epoch: after the loop over the batches, not inside it.",
    "for epoch in range(epochs):\n    for batch in loader:\n        train_step(batch)\n    scheduler.step()",
)
CONSTANT = Remedy(
    "Train with a constant learning rate first; add a schedule when that works.",
    "scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)",
    Patch("constant-rate"),
)


@check(
    basis="statistic",
    explains=("cannot-overfit-batch", "learning-rate-too-low", "loss-flat", "update-ratio-off", "step-never-taken"),
)
def schedule_reaches_zero(
    schedule: Schedule | None,
    calls: StepCalls | None,
    *,
    nothing: float = 1e-4,  # of the highest rate: cosine and linear schedules reach it only at their end; our choice
    within: int = 50,  # scheduler steps: fewer than any real training takes; our choice
    wasted: int = 50,  # training steps after the learning rate reached zero, and at least `share` of all; our choice
    share: float = 0.5,  # of the training steps; our choice
    stays: int = 20,  # scheduler steps that it stays there: a warm restart would raise it sooner; our choice
) -> Iterator[Finding]:
    """The scheduler drives the learning rate to zero after a few steps.

    nbdebug steps a copy of the scheduler and records the learning rates. It cannot know whether you step it per batch
    or per epoch, and a schedule of twenty epochs may well end after twenty steps: how your training comes out decides.
    A scheduler that your `train_step` steps itself is recorded while `train_step` runs on a copy. In a training that it
    watches, the learning rates of the real steps count: schedules reach zero at their end, not before half of the
    training.

    Why it matters: once the learning rate is zero nothing is learned anymore. The usual mistake is a schedule defined
    in epochs that is stepped per batch.

    A scheduler that waits for a rise of the loss (`mode="max"`) lowers the rate while the training goes well.

    What to try: step the scheduler as often as it was designed for, or pass the total number of batches as `T_max` or
    `total_steps`.
    """
    if schedule is None and calls is None:
        raise NotApplicable("no scheduler was passed, and no train_step that may have one")
    for name in calls.maximized if calls is not None else ():
        yield _maximized(name)
    if schedule is None:
        return
    highest = max(schedule.rates)
    if highest <= 0:
        yield _finding(schedule, 0, f"never rises above {highest:g}", "bug")
        return
    low = next(
        (
            i
            for i, rate in enumerate(schedule.rates)
            if i and rate < nothing * highest and _stays(schedule, i, nothing, stays)
        ),
        None,
    )
    if low is not None and schedule.places:
        step, last = schedule.places[low], schedule.places[-1]
        if last - step >= max(wasted, share * last):
            what = f"fell to {schedule.rates[low]:.2g} by step {step} and stayed there for {last - step} steps"
            yield _finding(schedule, step, what, "suspect")
        return
    if low is None or low > within:
        return
    what = f"falls to {schedule.rates[low]:.2g} after {low} step{'s' * (low > 1)} and does not rise again"
    yield _finding(schedule, low, what, "suspect")


def _stays(schedule: Schedule, index: int, nothing: float, steps: int) -> bool:
    return max(schedule.rates[index:]) < nothing * max(schedule.rates) and len(schedule.rates) - index > steps


def _finding(schedule: Schedule, step: int, what: str, severity: str) -> Finding:
    shown = len(schedule.rates) if schedule.places else min(200, len(schedule.rates))
    return Finding(
        f"The learning rate of `{schedule.name}` {what}.",
        where="train_step" if schedule.in_step else "your loop" if schedule.places else "scheduler",
        severity=severity,  # type: ignore[arg-type]
        is_contradiction=not step or schedule.in_step or bool(schedule.places),  # then the unit of its steps is known
        evidence={
            "step": step,
            "first rate": schedule.rates[0],
            "steps looked at": len(schedule.rates),
            "source": "37 reasons, 36",
        },
        remedies=_remedies(schedule, step),
        step=step if schedule.places else None,
        exhibit=Lines(
            (("learning rate", tuple(map(float, schedule.places or range(shown))), schedule.rates[:shown]),),
            title=f"Learning rate per {'step' if schedule.places else 'scheduler step'}",
            y_label="learning rate",
        ),
    )


def _remedies(schedule: Schedule, step: int) -> tuple[Remedy, ...]:
    """Return the fixes: a longer schedule does not help if the learning rate starts at zero."""
    if not step:
        return (CONSTANT,)
    if schedule.places or schedule.in_step:
        return (ONCE_AN_EPOCH, replace(LONGER, patch=None), CONSTANT)
    return (LONGER, CONSTANT)


def _maximized(name: str) -> Finding:
    return Finding(
        f'`{name}` lowers the learning rate while the loss falls: it waits for a rise (`mode="max"`) of the loss that '
        "`train_step` returns.",
        where=name,
        severity="suspect",
        is_contradiction=True,  # a loss is minimized
        evidence={"mode": "max", "threshold": "min", "source": "torch.optim.lr_scheduler.ReduceLROnPlateau"},
        remedies=(Remedy("Wait for a fall of the loss.", 'ReduceLROnPlateau(optimizer, mode="min")'),),
    )
