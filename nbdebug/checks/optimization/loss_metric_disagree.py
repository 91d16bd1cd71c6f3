"""The loss falls, but the metric gets worse."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.short_run import ShortRun
from nbdebug.experiments.learning_curve import Fit

__all__ = ["loss_metric_disagree"]


@check(basis="statistic", explains=("worse-than-baseline",))
def loss_metric_disagree(
    run: ShortRun,
    *,
    fell: float = 0.2,  # of the loss before; our choice
    sigmas: float = 4.0,  # standard errors; our choice
    explained: float = 0.05,  # standard error of explained variance, which has no closed form here; our choice
) -> Iterator[Finding]:
    """The loss falls, but the predictions get worse.

    nbdebug trains a copy for a short while and measures the loss and the metric (accuracy or explained variance) on the
    same samples before and after. With a custom `compute_loss` this is only a note, because such a loss may have
    another objective than the targets, for example a loss weighted by a reward.

    Why it matters: the loss is not a proxy for the objective. One term may have the wrong sign, the wrong samples may
    be weighted, or the loss may belong to another task.

    What to try: plot the loss as a function of one output at a time, and compute the metric manually on five samples.
    """
    before, after = run.fit_before, run.fit_after
    if before is None or after is None or before.measure != after.measure:
        raise NotApplicable("no metric is defined for this kind of task")
    drop = run.loss_before - run.loss_after
    noise = _noise(before, after, run.fitted, explained)
    worse = before.value - after.value > sigmas * noise and after.value < after.chance
    if drop > fell * abs(run.loss_before) and worse:
        yield Finding(
            f"The loss falls from {run.loss_before:.3g} to {run.loss_after:.3g} in {len(run.losses)} steps, but the "
            f"{before.measure} on the same samples drops from {before.value:.1%} to {after.value:.1%}.",
            where="loss_fn",
            severity="note" if run.by_hand else "suspect",
            evidence={
                "loss removed": drop,
                "quality lost": before.value - after.value,
                "threshold": sigmas * noise,
                "source": "37 reasons, 21",
            },
            exhibit=Bars(("before", "after"), (before.value, after.value), title=before.measure),
        )


def _noise(before: Fit, after: Fit, samples: int, explained: float) -> float:
    """Return the standard error of the accuracy, or a fixed tolerance for explained variance."""
    if before.measure != "accuracy":
        return explained
    share = (before.value + after.value) / 2  # of both, because an accuracy of 0 or 1 has no variance of its own
    return math.sqrt(max(share * (1 - share), 0.01) / max(samples, 1))
