"""A training run that has not converged."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.charts import Lines
from nbdebug.core.finding import Finding
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.recorded.loss_course import LossCourse

__all__ = ["still_improving"]


@check
def still_improving(
    course: LossCourse,
    *,
    least: int = 100,  # steps; our choice
    fall: float = 0.05,  # from the third to the fourth quarter; TheDeepChecker: 5 %
    sigmas: float = 4.0,  # standard errors; our choice
) -> Iterator[Finding]:
    """The loss is still falling: training has not converged.

    nbdebug watches your training run and compares its third quarter with its last.

    Why it matters: what looks like a bad model may be a good one that was stopped too early.

    What to try: continue training with the same settings until the last quarter brings no improvement; then evaluate.
    """
    if course.count < least:
        raise NotApplicable(f"{course.count} steps were recorded; {least} are needed")
    gain = course.before - course.later
    if gain > fall * abs(course.before) and gain > sigmas * course.later_error:
        yield Finding(
            f"The loss is still falling: {course.before:.3g} in the third quarter of {course.count} steps, "
            f"{course.later:.3g} in the last.",
            where="loss",
            severity="note",
            evidence={
                "third quarter": course.before,
                "last quarter": course.later,
                "standard error": course.later_error,
                "threshold": fall,
                "source": "37 reasons, 31",
            },
            exhibit=Lines.of_steps("loss", course.steps, course.values, "Loss"),
        )
