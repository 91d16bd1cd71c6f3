"""A learning rate that is too high."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nbdebug.charts import Lines
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.learning_rate_trials import RateTrials
from nbdebug.experiments.learning_curve import Curve

__all__ = ["learning_rate_too_high"]


@check(
    basis="statistic",
    explains=("cannot-overfit-batch", "non-finite-loss", "loss-diverges", "loss-spikes", "predictions-unstable"),
)
def learning_rate_too_high(
    trials: RateTrials,
    *,
    better: float = 2.0,  # times the loss reduction at the rate in use; our choice
) -> Iterator[Finding]:
    """The learning rate is too high: training fails with it and works with a lower one.

    nbdebug trains copies on the same small batch at your learning rate and, where that fails, at lower ones.

    Why it matters: each step overshoots the minimum, so the loss rises, oscillates or becomes NaN.

    What to try: use the learning rate that worked here; a schedule with warmup can raise it if needed.
    """
    own = trials.own
    lower = [curve for curve in trials.trials if curve.learning_rate < trials.rate and _much_better(curve, own, better)]
    if own.outcome == "memorized" or not lower:
        return
    works = max(lower, key=lambda curve: curve.learning_rate)
    yield Finding(
        f"At learning rate {trials.rate:g} the loss on one batch {_outcome(own)} ({own.first:.3g} to {own.last:.3g}); "
        f"at {works.learning_rate:g} it falls to {works.last:.3g}.",
        where="optimizer",
        severity="suspect" if trials.assumed else "bug",
        evidence={
            "learning rate": trials.rate,
            "works": works.learning_rate,
            "threshold": "the outcome of training, compared within this run",
            "source": "37 reasons, 36; Full Stack Deep Learning, lecture 7",
        },
        remedies=(
            Remedy(
                f"Lower the learning rate to {works.learning_rate:g}.",
                f'for group in optimizer.param_groups:\n    group["lr"] = {works.learning_rate:g}',
                Patch("multiply-learning-rate", {"factor": works.learning_rate / trials.rate}),
            ),
        ),
        exhibit=Lines.of_losses(
            ((f"{c.learning_rate:g}", c.losses) for c in trials.trials), "Loss on one batch by learning rate"
        ),
    )


def _much_better(curve: Curve, own: Curve, better: float) -> bool:
    """Return whether this run learned, without a spike, far more than the one at the current learning rate."""
    removed, removed_by_own = curve.first - curve.last, own.first - own.last
    finite = math.isfinite(own.last)
    return curve.learned and not curve.spiked and (not finite or removed > better * max(removed_by_own, 0.0))


def _outcome(own: Curve) -> str:
    if own.outcome == "not-finite":
        return "becomes NaN"
    return (
        f"spikes to {max(own.losses):.3g} and {own.outcome.replace('falling', 'falls again')}"
        if own.spiked
        else own.outcome
    )
