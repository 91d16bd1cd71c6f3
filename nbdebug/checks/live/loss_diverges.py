"""A loss that rises during training."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.charts import Lines
from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.recorded.loss_course import LossCourse

__all__ = ["loss_diverges"]


@check(explains=("weights-growing", "loss-spikes", "predictions-unstable", "still-improving"))
def loss_diverges(
    course: LossCourse,
    *,
    factor: float = 2.0,  # TheDeepChecker: twice the initial loss
    sigmas: float = 5.0,  # standard errors of the first tenth; our choice
    surely: float = 10.0,  # times the rise that is an alarm: a bug; our choice
    least: int = 40,  # steps: a loss may rise at first before it falls; our choice
    below: float = 10.0,  # times the initial loss, below zero, and still falling as fast; our choice
    runaway: float = 3.0,  # growth of the weights: with less, a loss may start low and rise at first; our choice
    scale: float = 1.0,  # least first loss, for `below`: one near zero by chance has no scale of its own; our choice
    below_zero: float = 10.0,  # times as far for a loss that starts below zero, as a log density may; our choice
    enough: int = 200,  # steps, for `below`: a density is learned quickly at first; our choice
    falling: float = 0.15,  # of the loss, from the third to the fourth quarter; our choice, a straight line gives 0.25
) -> Iterator[Finding]:
    """The loss is far above its initial value.

    nbdebug watches your training run and compares its first tenth with its last: four of five steps must be above twice
    the initial loss, and by far more than the noise. A loss that falls below zero without bound is reported as well.
    Where weights have grown, too, the very first steps are the reference. Models that train against each other are
    excluded.

    Why it matters: training diverges, and usually ends in NaN.

    What to try: use a learning rate that is ten times lower, warmup, gradient clipping; check the sign of the loss, and
    whether gradients are cleared in every step.
    """
    course.require_progress()
    if course.is_episodic:
        raise NotApplicable("each backward pass covers many forward passes, as with a policy: its loss need not fall")
    if course.count < least:
        raise NotApplicable(f"{course.count} steps were recorded; {least} are needed")
    begin = max(course.opening if course.opening > 0 else -below_zero * course.opening, scale)
    is_far = course.count >= enough and course.now < -below * begin
    if is_far and course.before - course.later > falling * abs(course.later):
        yield _unbounded_below(course, below)
        return
    start, error, began = course.start, course.start_error, "first tenth"
    if course.grown > runaway and min(course.opening, course.first) < start:
        start, error, began = min(course.opening, course.first), min(course.noise, course.now_error), "first steps"
    rise = course.now - start
    size = max((factor - 1) * abs(start), max(start - course.best, 0.0), sigmas * error)
    if course.lowest < 0:  # a loss that changes sign may start near zero by chance
        size = max(size, factor * course.first_size)
    if not course.now_low > start + size:  # four of five of the last steps
        return
    yield Finding(
        f"The loss rose from {start:.3g} in the {began} to {course.now:.3g} in the last tenth of {course.count} steps"
        + (f" (lowest: {course.best:.3g} at step {course.best_step})." if course.best < start else "."),
        where="loss",
        severity="bug" if rise > surely * size else "suspect",
        evidence={
            began: start,
            "last tenth": course.now,
            "scatter": error,
            "lowest": course.best,
            "threshold": factor,
            "source": "TheDeepChecker: twice the initial loss",
        },
        remedies=(
            Remedy("Lower the learning rate tenfold.", 'for group in optimizer.param_groups:\n    group["lr"] /= 10'),
            Remedy("Clip the gradient.", "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"),
        ),
        exhibit=Lines.of_steps("loss", course.steps, course.values, "Loss"),
    )


def _unbounded_below(course: LossCourse, below: float) -> Finding:
    return Finding(
        f"The loss keeps falling below zero: from {course.opening:.3g} in the first steps to {course.now:.3g} in the "
        f"last tenth of {course.count} steps. Its sign may be flipped.",
        where="loss",
        severity="suspect",
        evidence={
            "first steps": course.opening,
            "last tenth": course.now,
            "threshold": -below,
            "source": "a loss to minimize has a lower bound",
        },
        remedies=(
            Remedy("Check the sign: the loss is minimized.", "loss = loss_fn(model(x), y)  # not -loss_fn"),
            Remedy("Use a loss with a lower bound.", "loss = nn.functional.cross_entropy(model(x), y)"),
        ),
        exhibit=Lines.of_steps("loss", course.steps, course.values, "Loss"),
    )
