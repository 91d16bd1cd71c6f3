"""Predictions on a fixed batch keep changing."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from nbdebug.charts import Lines
from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.recorded.values import PredictionChanges

__all__ = ["predictions_unstable"]


@check
def predictions_unstable(
    changes: PredictionChanges,
    *,
    share: float = 0.3,  # of the predictions; our choice
    low: float = 0.5,  # of `share`, in three of four late evaluations; our choice
    calmed: float = 0.5,  # of the changes early in training: what is below settles; our choice
    least: int = 10,  # evaluations of the fixed batch; our choice
) -> Iterator[Finding]:
    """Predictions on a fixed batch change late in training as much as at its start.

    nbdebug evaluates the model repeatedly on the batch that you passed to `nbdebug.follow_predictions`, and counts the
    predictions that changed since the previous evaluation: other classes, or values that moved by more than half of
    their standard deviation.

    Why it matters: the predictions of a model that learns converge. If they keep changing, the model forgets as much as
    it learns: the learning rate is too high, or the batches contradict each other.

    What to try: lower the learning rate, increase the batch size, and make sure that each batch contains samples of
    every class.
    """
    if len(changes.shares) < least:
        raise NotApplicable(f"the fixed batch was evaluated {len(changes.shares)} times; {least} are needed")
    early, late = changes.shares[: len(changes.shares) // 2], changes.shares[len(changes.shares) // 2 :]
    lowest = sorted(late)[len(late) // 4]
    if median(late) < share or lowest < low * share or median(late) < calmed * median(early):
        return
    yield Finding(
        f"{median(late):.0%} of the predictions on the fixed batch change between two evaluations (last {len(late)}, "
        f"up to step {changes.steps[-1]}; {median(early):.0%} early in training).",
        where="model",
        severity="suspect",
        evidence={
            "changed, late": median(late),
            "changed, early": median(early),
            "looks": len(changes.shares),
            "threshold": share,
            "source": "compared with the first half of the same run",
        },
        remedies=(
            Remedy("Divide the learning rate by 10.", 'for group in optimizer.param_groups:\n    group["lr"] /= 10'),
        ),
        exhibit=Lines.of_steps("fraction", changes.steps, changes.shares, "Predictions changed since last evaluation"),
    )
