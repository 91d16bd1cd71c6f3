"""A loss that does not fall."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.charts import Lines
from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.recorded.loss_course import LossCourse

__all__ = ["loss_flat"]


@check
def loss_flat(
    course: LossCourse,
    *,
    least: int = 200,  # steps; our choice
    fall: float = 0.02,  # of the initial loss; TheDeepChecker requires 5 % in 5 measurements, SageMaker Debugger 0.1 %
    sigmas: float = 3.0,  # standard errors; our choice
    gained: float = 0.2,  # of the initial loss: one that fell this far and rose again was not flat; our choice
    scatter: float = 0.25,  # relative to the loss; a converged loss is noisier; our choice
    risen: float = 1.5,  # times the initial loss: what rose further is reported by loss-diverges; our choice
) -> Iterator[Finding]:
    """The loss has not fallen since training started.

    nbdebug watches your training run and compares its first tenth with its last, with a margin for the noise from batch
    to batch. A learning rate that is still warming up, and models that train against each other, are excluded.

    Why it matters: nothing is being learned, and longer training will not help.

    What to try: run nbdebug.diagnose(model, loader, …, train_step=…), which looks for the cause: labels unrelated to
    the inputs, a learning rate that is too low or too high, parameters without a gradient.
    """
    course.require_progress()
    if course.warming_up:
        raise NotApplicable("the learning rate is still warming up")
    if course.count < least:
        raise NotApplicable(f"{course.count} steps were recorded; {least} are needed")
    most = course.start - course.now + sigmas * (course.start_error**2 + course.now_error**2) ** 0.5
    size = abs(course.start)
    rose_again = course.range > gained * size and course.range > sigmas * course.start_error  # it was lower before
    if most > fall * size or course.noise > scatter * size or course.now > course.start * risen or rose_again:
        return
    yield Finding(
        f"The loss does not fall: {course.start:.4g} in the first tenth of {course.count} steps, {course.now:.4g} in "
        f"the last ({f'a decrease of at most {most / size:.1%}' if most > 0 else 'no decrease'}).",
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
        remedies=(Remedy("Run a diagnosis to find the cause.", "nbdebug.diagnose(model, loader, loss_fn, optimizer)"),),
        exhibit=Lines.of_steps("loss", course.steps, course.values, "Loss"),
    )
