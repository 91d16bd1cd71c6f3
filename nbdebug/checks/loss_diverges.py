"""A loss that rises."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import LossCourse
from nbdebug.exhibit import Lines
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["loss_diverges"]

SURELY = 200  # steps: a density is quickly learned at first
UNIT = 1.0  # of a loss that is a logarithm: what begins near zero by chance has no size of its own
FARTHER = 10.0  # times as far for a loss that begins below zero, as the logarithm of a density may
STEADILY = 0.15  # of the loss, from the third quarter of the run to the fourth: a straight line has a quarter


@check(explains=("weights-growing", "loss-spikes", "predictions-unstable", "give-it-time"))
def loss_diverges(
    course: LossCourse,
    *,
    factor: float = 2.0,  # TheDeepChecker: twice the first loss
    sigmas: float = 5.0,
    least: int = 40,  # steps: at first a loss may rise before it falls
    below: float = 10.0,  # times the first loss, below zero, and still falling as fast
    runaway: float = 3.0,  # growth of the weights: with less, a loss may begin low by its nature and rise at first
) -> Iterator[Finding]:
    """The loss is far above what it was at the beginning.

    nbdebug watches your training and compares the first tenth of it with the last: four of five steps have to lie above
    twice the first loss, and by far more than that scatters. A loss that falls below zero without end is reported
    as well. Where weights have grown as well, the very first steps are
    the beginning. Models that train against each other are left out.

    Why it matters: the training goes away from its goal and usually ends in NaN.

    What to try: a learning rate that is ten times lower, a warm-up, clipped gradients; look at the sign of the loss,
    and at whether gradients are cleared in every step.
    """
    course.require_progress()
    if course.is_episodic:
        raise NotApplicable("many passes make one backward pass, as where a policy acts: its loss may go anywhere")
    if course.count < least:
        raise NotApplicable(f"{course.count} steps were recorded; {least} are needed")
    if _runs_away_below(course, below):
        yield _below(course, below)
        return
    start, error, began = course.start, course.start_error, "first tenth"
    if course.grown > runaway and min(course.opening, course.first) < start:
        start, error, began = min(course.opening, course.first), min(course.noise, course.now_error), "first steps"
    rise = course.now - start
    size = max((factor - 1) * abs(start), max(start - course.best, 0.0), sigmas * error)
    if course.lowest < 0:  # one that changes its sign may begin near zero by chance
        size = max(size, factor * course.first_size)
    if not course.now_low > start + size:  # four of five of the last steps
        return
    yield Finding(
        f"The loss rose from {start:.3g} in the {began} to {course.now:.3g} in the last tenth of {course.count} steps"
        + (f"; it was lowest at step {course.best_step}, with {course.best:.3g}." if course.best < start else "."),
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


def _runs_away_below(course: LossCourse, below: float) -> bool:
    """Whether the loss fell far below zero, and by a good part of that in the last quarter alone."""
    begin = course.opening if course.opening > 0 else -FARTHER * course.opening
    is_far = course.count >= SURELY and course.now < -below * max(begin, UNIT)
    return is_far and course.before - course.later > STEADILY * abs(course.later)


def _below(course: LossCourse, below: float) -> Finding:
    return Finding(
        f"The loss fell from {course.opening:.3g} in the first steps to {course.now:.3g} in the last tenth of "
        f"{course.count}, and goes on: nothing holds it, as where its sign is wrong.",
        where="loss",
        severity="suspect",
        evidence={
            "first steps": course.opening,
            "last tenth": course.now,
            "threshold": -below,
            "source": "a loss that is learned has a floor",
        },
        remedies=(
            Remedy(
                "Look at the sign: the loss is what should become small.", "loss = loss_fn(model(x), y)  # not -loss_fn"
            ),
            Remedy("Give the loss a floor.", "loss = nn.functional.cross_entropy(model(x), y)"),
        ),
        exhibit=Lines.of_steps("loss", course.steps, course.values, "Loss"),
    )
