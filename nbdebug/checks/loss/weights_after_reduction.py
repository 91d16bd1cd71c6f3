"""Weights of single samples that meet a loss only after it was averaged."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.loss_operands import LossOperands

__all__ = ["weights_after_reduction"]


@check(explains=("loss-mask-inverted", "training-fails", "cannot-overfit-batch", "worse-than-baseline"))
def weights_after_reduction(operands: LossOperands) -> Iterator[Finding]:
    """Weights, a mask or returns are multiplied with a loss that is already averaged.

    nbdebug records one run of your loss and looks for products of different weights, one for each sample or step, with
    a single number that just as many samples or steps were averaged to. All products are then summed again.

    Why it matters: every weight meets the same number, so only their sum matters. A mask leaves nothing out, sample
    weights weigh nothing, and in a policy gradient no action gets the credit for its own return.

    What to try: compute the loss with `reduction="none"`, multiply, and average then.
    """
    for found in operands.weighed[:1]:
        named = f"`{found.sources[0]}`" if len(found.sources) == 1 else "values of the batch"
        kind = "a mask" if found.zeros else "weights"
        yield Finding(
            f"{found.weights} different weights ({kind}, made of {named}) are multiplied with one number, because "
            f"`{found.reduction}` has averaged the loss before: they have no effect on single entries.",
            where=operands.place,
            severity="bug",
            evidence={
                "weights": found.weights,
                "weights of zero": found.zeros,
                "reduced by": found.reduction,
                "made of": list(found.sources),
                "threshold": "as many weights as entries were reduced to one number",
                "source": "sum(w * mean(l)) = mean(l) * sum(w), whatever the weights are",
            },
            remedies=(
                Remedy(
                    "Weigh before the reduction.",
                    'losses = F.cross_entropy(outputs, targets, reduction="none")\n'
                    "loss = (losses * weights).sum() / weights.sum()",
                ),
            ),
        )
