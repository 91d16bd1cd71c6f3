"""A loss that falls while the quality falls, too."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import Fit, ShortRun
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding
from nbdebug.registry import check

__all__ = ["loss_metric_disagree"]


@check(explains=("worse-than-baseline",))
def loss_metric_disagree(run: ShortRun, *, fell: float = 0.2, sigmas: float = 4.0) -> Iterator[Finding]:
    """The loss falls, but the answers get worse.

    nbdebug trains a copy for a short while and measures loss and quality on the same samples before and after.
    It is only noted where you compute the loss yourself, because that may rightly want other answers than the targets,
    as a loss that weighs them by a reward does.

    Why it matters: what is minimised is not what is wanted. The loss may have the wrong sign in one term, weigh the
    wrong samples, or be of another kind than the task.

    What to try: look at the loss as a function of one output at a time, and compute the metric by hand on five samples.
    """
    before, after = run.fit_before, run.fit_after
    if before is None or after is None or before.measure != after.measure:
        raise NotApplicable("there is no measure of quality for this kind of task")
    drop = run.loss_before - run.loss_after
    noise = _noise(before, after, run.fitted)
    worse = before.value - after.value > sigmas * noise and after.value < after.chance
    if drop > fell * abs(run.loss_before) and worse:
        yield Finding(
            f"In {len(run.losses)} steps the loss falls from {run.loss_before:.3g} to {run.loss_after:.3g}, but the "
            f"{before.measure} falls as well, from {before.value:.1%} to {after.value:.1%}.",
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


def _noise(before: Fit, after: Fit, samples: int) -> float:
    """Return the standard error of a share of right answers; explained variance gets a fixed allowance."""
    if before.measure != "accuracy":
        return 0.05
    share = (before.value + after.value) / 2  # of both, because one that is right by chance has no variance of its own
    return math.sqrt(max(share * (1 - share), 0.01) / max(samples, 1))
