"""The loss is summed over the batch."""

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
    growth: float = 0.02,  # a summed loss doubles with twice the samples; rounding error is far smaller
    rises: float = 1.5,  # relative to the initial loss, after ten steps on one batch
) -> Iterator[Finding]:
    """The loss is summed over the batch, so it grows with the batch size.

    nbdebug computes the loss of one batch and of the same batch repeated twice: a mean stays the same, a sum doubles.
    With SGD it then takes a few steps with your learning rate, and with the learning rate divided by the batch size.

    Why it matters: the gradients grow with the batch size as well. A learning rate tuned for one batch size is too high
    for a larger one, and losses of runs with different batch sizes cannot be compared. Adaptive optimizers hide it.

    What to try: use `reduction="mean"`, or divide the learning rate by the batch size.
    """
    if abs(scaling.growth - 2) > growth:
        return
    diverges = scaling.ends is not None and scaling.ends[0] > rises and scaling.ends[1] < 1
    trouble = ""
    if diverges and scaling.ends is not None:
        end = "diverges" if math.isinf(scaling.ends[0]) else f"grows {scaling.ends[0]:.3g}-fold"
        trouble = (
            f" With `{scaling.optimizer}` (lr={scaling.learning_rate:g}) it {end} within ten steps; with lr divided by "
            f"the batch size it falls."
        )
    yield Finding(
        f"The loss is summed over the batch: it is {scaling.once:.3g} for {scaling.batch_size} samples and "
        f"{scaling.twice:.3g} for the same batch repeated twice.{trouble}",
        where=scaling.place,
        severity="suspect" if diverges else "note",
        evidence={
            "loss of the batch": scaling.once,
            "loss of the batch twice over": scaling.twice,
            "loss after ten steps, relative": str(scaling.ends),
            "threshold": f"{rises} times the initial loss",
            "source": "37 reasons, 18",
        },
        remedies=(
            Remedy(
                "Average the loss over the batch.",
                'loss_fn = nn.CrossEntropyLoss(reduction="mean")',
                Patch("average-loss"),
            ),
            Remedy("Divide the sum by the batch size.", "loss = loss / len(x)"),
        ),
        exhibit=Bars(("one batch", "batch repeated twice"), (scaling.once, scaling.twice), unit="loss"),
    )
