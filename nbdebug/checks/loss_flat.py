"""A loss that does not move."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import LossCourse
from nbdebug.exhibit import Lines
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["loss_flat"]


@check
def loss_flat(
    course: LossCourse,
    *,
    least: int = 200,  # steps
    fall: float = 0.02,  # of the first loss; TheDeepChecker asks for 5 % in 5 looks, SageMaker Debugger for 0.1 %
    sigmas: float = 3.0,
    gained: float = 0.2,  # of the first loss: what had fallen so far and rose again was not flat
    scatter: float = 0.25,  # relative to the loss; one that has been learned scatters more
) -> Iterator[Finding]:
    """The loss has not fallen since the training began.

    nbdebug watches your training and compares the first tenth of it with the last, with an error that allows for the
    scatter from batch to batch. A learning rate that is still warming up, and models that train against each other, are
    left out.

    Why it matters: nothing is being learned, and more time will not help.

    What to try: run nbdebug.diagnose(model, loader, …, train_step=…), which looks for the reason: labels that have
    nothing to do with the inputs, a learning rate that is off, parameters that no gradient reaches.
    """
    course.require_progress()
    if course.warming_up:
        raise NotApplicable("the learning rate still rises")
    if course.count < least:
        raise NotApplicable(f"{course.count} steps were recorded; {least} are needed")
    most = course.start - course.now + sigmas * (course.start_error**2 + course.now_error**2) ** 0.5
    size = abs(course.start)
    lost = course.range > gained * size and course.range > sigmas * course.start_error  # it had been lower
    if most > fall * size or course.noise > scatter * size or course.now > course.start * 1.5 or lost:
        return
    yield Finding(
        f"The loss was {course.start:.4g} in the first tenth of {course.count} steps and is {course.now:.4g} in the "
        f"last: {f'it fell by {most / size:.1%} at most' if most > 0 else 'it did not fall'}.",
        where="loss",
        severity="suspect",
        evidence={
            "first tenth": course.start,
            "last tenth": course.now,
            "steps": course.count,
            "update/weight of a step": course.moved,
            "threshold": fall,
            "source": "TheDeepChecker; SageMaker Debugger",
        },
        remedies=(Remedy("Let nbdebug look for the reason.", "nbdebug.diagnose(model, loader, loss_fn, optimizer)"),),
        exhibit=Lines.of_steps("loss", course.steps, course.values, "Loss"),
    )
