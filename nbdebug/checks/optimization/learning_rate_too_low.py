"""A learning rate that is too low."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nbdebug.charts import Lines
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.learning_rate_trials import RateTrials

__all__ = ["learning_rate_too_low"]


@check(basis="statistic", explains=("cannot-overfit-batch", "update-ratio-off", "loss-flat", "still-improving"))
def learning_rate_too_low(
    trials: RateTrials,
    *,
    moves: float = 1e-5,  # TheDeepChecker: updates below 1e-4 of the weights are small; ten times lower to be safe
    gain: float = 5.0,  # times the loss reduction at the rate in use; our choice
) -> Iterator[Finding]:
    """The learning rate is too low: the weights hardly change, and a higher rate learns quickly.

    nbdebug measures how much one step changes the weights, and trains copies on one batch at higher learning rates.

    Why it matters: training looks broken, or would take weeks, when only one number is wrong.

    What to try: use the learning rate that worked here; Adam with 3e-4 is a good default for most networks.
    """
    own = trials.own
    if not math.isfinite(trials.update_ratio):
        raise NotApplicable("there is no weight matrix whose updates can be measured")
    higher = [curve for curve in trials.trials if curve.learning_rate > trials.rate and curve.learned]
    if trials.update_ratio > moves or not higher or own.outcome == "memorized":
        return
    works = min(higher, key=lambda curve: curve.last)
    if works.first - works.last < gain * max(own.first - own.last, 0.0):
        return
    yield Finding(
        f"At learning rate {trials.rate:g} one step changes the weights by only {trials.update_ratio:.1e} (relative). "
        f"In {trials.steps} steps the loss on one batch goes from {own.first:.3g} to {own.last:.3g}, at "
        f"{works.learning_rate:g} to {works.last:.3g}.",
        where="optimizer",
        severity="suspect",
        evidence={
            "learning rate": trials.rate,
            "works": works.learning_rate,
            "update/weight": trials.update_ratio,
            "threshold": moves,
            "source": "TheDeepChecker; 37 reasons, 33 and 36",
        },
        remedies=(
            Remedy(
                f"Raise the learning rate to about {works.learning_rate:g}.",
                f'for group in optimizer.param_groups:\n    group["lr"] = {works.learning_rate:g}',
                Patch("multiply-learning-rate", {"factor": works.learning_rate / trials.rate}),
            ),
        ),
        exhibit=Lines.of_losses(
            ((f"{c.learning_rate:g}", c.losses) for c in trials.trials), "Loss on one batch by learning rate"
        ),
    )
