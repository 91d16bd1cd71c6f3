"""A loss that grows with the batch."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nbdebug.evidence import BatchScaling
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["loss_sums_over_batch"]


@check(explains=("learning-rate-too-high", "exploding-gradients", "batch-not-memorised", "update-ratio-off"))
def loss_sums_over_batch(
    scaling: BatchScaling,
    *,
    growth: float = 0.02,  # twice the samples give twice a sum; rounding is far smaller
    rises: float = 1.5,  # relative to the first loss, after ten steps on one batch
) -> Iterator[Finding]:
    """The loss is a sum over the samples, so it grows with the batch size.

    nbdebug runs a batch and the same batch twice over: a mean stays, a sum doubles. With plain gradient descent it then
    tries a few steps with your learning rate and with that divided by the batch size.

    Why it matters: the gradients grow with the batch as well. A learning rate that fits one batch size is too high for
    a larger one, and losses of runs with different batch sizes cannot be compared. Adaptive optimizers hide it.

    What to try: take the mean, or divide the learning rate by the batch size.
    """
    if abs(scaling.growth - 2) > growth:
        return
    suffers = scaling.ends is not None and scaling.ends[0] > rises and scaling.ends[1] < 1
    trouble = ""
    if suffers and scaling.ends is not None:
        end = "explodes" if math.isinf(scaling.ends[0]) else f"grows {scaling.ends[0]:.3g}-fold"
        trouble = (
            f" With {scaling.optimizer} and a learning rate of {scaling.learning_rate:g} it {end} within ten steps; "
            f"divided by the batch size it falls."
        )
    yield Finding(
        f"The loss of a batch of {scaling.batch_size} is {scaling.once:.3g}, and {scaling.twice:.3g} for the same "
        f"batch twice over: it is a sum over the samples.{trouble}",
        where=scaling.place,
        severity="suspect" if suffers else "note",
        evidence={
            "loss of the batch": scaling.once,
            "loss of the batch twice over": scaling.twice,
            "loss after ten steps, relative": str(scaling.ends),
            "threshold": f"{rises} times the first loss",
            "source": "37 reasons, 18",
        },
        remedies=(
            Remedy(
                "Take the mean over the samples.",
                'loss_fn = nn.CrossEntropyLoss(reduction="mean")',
                Patch("average-loss"),
            ),
            Remedy("Or divide the sum.", "loss = loss / len(x)"),
        ),
        exhibit=Bars(("one batch", "the batch twice"), (scaling.once, scaling.twice), unit="loss"),
    )
