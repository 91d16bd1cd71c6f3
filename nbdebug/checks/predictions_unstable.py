"""Answers that change from look to look."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from nbdebug.errors import NotApplicable
from nbdebug.evidence import PredictionChanges
from nbdebug.exhibit import Lines
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["predictions_unstable"]


@check
def predictions_unstable(
    changes: PredictionChanges,
    *,
    share: float = 0.3,
    least: int = 10,  # looks
) -> Iterator[Finding]:
    """The answers about a fixed batch keep changing, late in the training as much as at its beginning.

    nbdebug asks the model again and again about the batch that you named with `nbdebug.follow_predictions`, and counts
    the answers that changed since the look before: other classes, or values that moved by more than half of their
    spread.

    Why it matters: a model that learns settles on answers. One whose answers keep turning over forgets as much as it
    learns: the learning rate is too high, or the batches contradict each other.

    What to try: lower the learning rate, make the batches larger, and see that each holds samples of every class.
    """
    if len(changes.shares) < least:
        raise NotApplicable(f"{len(changes.shares)} looks; {least} are needed")
    early, late = changes.shares[: len(changes.shares) // 2], changes.shares[len(changes.shares) // 2 :]
    low = sorted(late)[len(late) // 4]
    if median(late) < share or low < share / 2 or median(late) < 0.5 * median(early):
        return
    yield Finding(
        f"Between two looks {median(late):.0%} of the answers about the same batch change (median of the last "
        f"{len(late)} looks, up to step {changes.steps[-1]}; {median(early):.0%} at the beginning).",
        where="model",
        severity="suspect",
        evidence={
            "changed, late": median(late),
            "changed, early": median(early),
            "looks": len(changes.shares),
            "threshold": share,
            "source": "compared with the beginning of the same training",
        },
        remedies=(
            Remedy("Lower the learning rate tenfold.", 'for group in optimizer.param_groups:\n    group["lr"] /= 10'),
        ),
        exhibit=Lines.of_steps("share", changes.steps, changes.shares, "Answers that changed since the look before"),
    )
