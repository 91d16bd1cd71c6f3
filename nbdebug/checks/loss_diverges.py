"""A loss that rises."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import LossCourse
from nbdebug.exhibit import Lines
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["loss_diverges"]


@check(explains=("weights-growing", "loss-spikes", "predictions-unstable"))
def loss_diverges(
    course: LossCourse,
    *,
    factor: float = 2.0,  # TheDeepChecker: twice the first loss
    sigmas: float = 5.0,
    runaway: float = 3.0,  # growth of the weights: with less, a loss may begin low by its nature and rise at first
) -> Iterator[Finding]:
    """The loss is far above what it was at the beginning.

    nbdebug watches your training and compares the first tenth of it with the last: four of five steps have to lie above
    twice the first loss, and by far more than that scatters. Where weights have grown as well, the very first steps are
    the beginning. Models that train against each other are left out.

    Why it matters: the training goes away from its goal and usually ends in NaN.

    What to try: a learning rate that is ten times lower, a warm-up, clipped gradients; look at the sign of the loss,
    and at whether gradients are cleared in every step.
    """
    if course.others:
        raise NotApplicable("models that train against each other push each other's losses up")
    start, error, began = course.start, course.start_error, "first tenth"
    if course.grown > runaway and course.opening < start:
        start, error, began = course.opening, course.noise, "first steps"
    rise = course.now - start
    size = max((factor - 1) * abs(start), max(start - course.best, 0.0), sigmas * error)
    if not course.now_low > start + size:  # four of five of the last steps
        return
    yield Finding(
        f"The loss rose from {start:.3g} in the {began} to {course.now:.3g} in the last tenth of {course.count} steps; "
        f"it was lowest at step {course.best_step}, with {course.best:.3g}.",
        where="loss",
        severity="bug" if rise > 10 * size else "suspect",
        evidence={
            began: start,
            "last tenth": course.now,
            "scatter": error,
            "lowest": course.best,
            "threshold": factor,
            "source": "TheDeepChecker: twice the first loss",
        },
        remedies=(
            Remedy("Lower the learning rate tenfold.", 'for group in optimizer.param_groups:\n    group["lr"] /= 10'),
            Remedy("Clip the gradient.", "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"),
        ),
        exhibit=Lines.of_steps("loss", course.steps, course.values, "Loss"),
    )
