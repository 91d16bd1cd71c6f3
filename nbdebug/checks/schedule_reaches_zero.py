"""A schedule that ends the training before it has begun."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nbdebug.evidence import Schedule
from nbdebug.exhibit import Lines
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["schedule_reaches_zero"]

LONGER = Remedy(
    "Make the schedule as long as the training.",
    "torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs * len(loader))",
    Patch("slow-schedule", {"times": 100}),
)
ONCE_AN_EPOCH = Remedy(
    "If the schedule counts epochs, step it once an epoch: behind the loop over the batches and not inside it.",
    "for epoch in range(epochs):\n    for batch in loader:\n        train_step(batch)\n    scheduler.step()",
)
CONSTANT = Remedy(
    "Train at one rate first; a schedule can come when that works.",
    "scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)",
    Patch("constant-rate"),
)


@check(explains=("batch-not-memorised", "learning-rate-too-low", "loss-flat", "update-ratio-off", "step-never-taken"))
def schedule_reaches_zero(
    schedule: Schedule,
    *,
    nothing: float = 1e-4,  # of the highest rate: cosine and linear schedules end near 0, but at their end
    within: int = 50,  # steps of the scheduler: fewer than any real training takes
    wasted: int = 50,  # steps of a real training after the rate has come to nothing, and at least half of all
) -> Iterator[Finding]:
    """The scheduler takes the learning rate to nothing after a few steps.

    nbdebug steps a copy of the scheduler and notes the rates. It cannot know whether you step it once a batch or once
    an epoch, so only what is too early for both is reported as a suspicion. A scheduler that your train_step steps by
    itself is watched while that is called on a copy. In a training that it watches, the rates of the real steps are
    looked at: schedules end near zero at their end, not before half of the training.

    Why it matters: once the rate is at zero nothing is learned any more, whatever the loss says. The usual slip is a
    schedule made for epochs that is stepped once a batch.

    What to try: step the scheduler as often as it was made for, or give it the number of all batches as T_max or
    total_steps.
    """
    highest = max(schedule.rates)
    if highest <= 0:
        yield _finding(schedule, 0, f"never rises above {highest:g}", "bug")
        return
    low = next(
        (i for i, rate in enumerate(schedule.rates) if i and rate < nothing * highest and _stays(schedule, i, nothing)),
        None,
    )
    if low is not None and schedule.places:
        step, last = schedule.places[low], schedule.places[-1]
        if last - step >= max(wasted, last / 2):
            what = f"fell to {schedule.rates[low]:.2g} by step {step} and stayed below in all {last - step} since"
            yield _finding(schedule, step, what, "suspect")
        return
    if low is None or low > within:
        return
    yield _finding(schedule, low, f"falls to {schedule.rates[low]:.2g} after {low} steps and stays there", "suspect")


def _stays(schedule: Schedule, index: int, nothing: float) -> bool:
    return max(schedule.rates[index:]) < nothing * max(schedule.rates) and len(schedule.rates) - index > 20


def _finding(schedule: Schedule, step: int, what: str, severity: str) -> Finding:
    shown = len(schedule.rates) if schedule.places else min(200, len(schedule.rates))
    return Finding(
        f"The learning rate of {schedule.name} {what}.",
        where="train_step" if schedule.in_step else "your loop" if schedule.places else "scheduler",
        severity=severity,  # type: ignore[arg-type]
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
            title=f"Learning rate over the {'steps' if schedule.places else 'steps of the scheduler'}",
            y_label="learning rate",
        ),
    )


def _remedies(schedule: Schedule, step: int) -> tuple[Remedy, ...]:
    """Give what to try: another length does not help a rate that begins at nothing, and is not tried within a step."""
    if not step:
        return (CONSTANT,)
    if schedule.places:
        return (ONCE_AN_EPOCH, replace(LONGER, patch=None), CONSTANT)
    return (replace(LONGER, patch=None) if schedule.in_step else LONGER, CONSTANT)
