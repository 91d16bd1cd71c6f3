"""An initial loss far from chance level."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.initial_loss import FirstGuess, InitialLoss

__all__ = ["initial_loss_off"]


@check(basis="statistic")
def initial_loss_off(
    initial: InitialLoss,
    *,
    too_high: float = 3.0,  # TheDeepChecker: 2 times ln C; more here, because wide heads start noisy
    nats: float = 6.0,  # with many classes: logits with a standard deviation of 3.5 start this far above ln C
    too_low: float = 0.5,  # of the best constant prediction, which no untrained model can beat by much; our choice
    fewest: int = 16,  # targets in the batch; fewer can be predicted by chance; our choice
) -> Iterator[Finding]:
    """The initial loss is far from chance level.

    An untrained model should predict all classes as equally likely, or the mean of the targets. nbdebug passes exactly
    that to the loss and compares. For "too low" it re-initializes copies of the model, so that a trained model is not
    reported for what it has learned. A loss that is too high is only a note where the first training steps correct it.

    Why it matters: an initial loss far above chance level means confident wrong predictions. The first steps are spent
    on undoing them, and with large inputs or weights they may never succeed. An initial loss far below chance level,
    with untrained weights, means that the targets leak into the outputs.

    What to try: too high: initialize the last layer with small weights, normalize inputs and targets, look for a
    missing scaling. Too low: look for targets among the inputs, and for a loss that ignores almost all elements.
    """
    judged = [first for first in initial.guesses if first.guess > 0 and not first.is_constant]
    if not judged:
        raise NotApplicable("all samples have the same target, or the chance-level loss is not positive")
    for first in judged:
        limit = too_high if first.classes < 3 else min(too_high, 1 + nats / math.log(first.classes))
        if first.loss > limit * first.guess:
            yield _too_high(first, limit)
        elif _is_too_low(first, too_low, fewest):
            yield _too_low(first, too_low)


def _is_too_low(first: FirstGuess, too_low: float, fewest: int) -> bool:
    untrained = [loss for loss in first.untrained if math.isfinite(loss)]
    if first.kind == "regression" or first.rows < fewest or len(untrained) < 3 or first.constant <= 0:
        return False  # a residual network may start with a good prediction for a regression target
    return max(untrained) < too_low * first.constant


def _too_high(first: FirstGuess, limit: float) -> Finding:
    return Finding(
        f"The initial loss is {first.loss:.3g}; chance level ({first.says}) is {first.guess:.3g}."
        + (f" It falls to {first.soon:.3g} within a few training steps." if first.soon < first.guess else ""),
        where=first.place,
        severity="note" if first.soon < first.guess else "suspect",
        evidence={
            "first loss": first.loss,
            "loss after a few steps": first.soon,
            "loss of guessing": first.guess,
            "loss of the best constant answer": first.constant,
            "threshold": f"{limit:.3g} times the chance-level loss",
            "source": "37 reasons, 17; TheDeepChecker",
        },
        remedies=(
            Remedy(
                "Initialize the last layer with small weights.",
                "nn.init.normal_(head.weight, std=0.01); nn.init.zeros_(head.bias)",
                Patch("small-head"),
            ),
            Remedy("Normalize the inputs.", "x = (x - x.mean(0)) / x.std(0)", Patch("standardize-inputs")),
        ),
        exhibit=Bars(("initial loss", "chance level", "best constant"), (first.loss, first.guess, first.constant)),
    )


def _too_low(first: FirstGuess, too_low: float) -> Finding:
    untrained = max(first.untrained)
    return Finding(
        f"With untrained weights the loss is already {untrained:.3g} or less, below the best constant prediction "
        f"({first.constant:.3g}): the targets seem to leak into the inputs.",
        where=first.place,
        severity="suspect",
        evidence={
            "loss with fresh weights": untrained,
            "loss of the best constant answer": first.constant,
            "answers": first.rows,
            "threshold": too_low,
            "source": "neural-net-checklist: too low is the sign of leakage",
        },
        remedies=(Remedy("Print a batch as the model receives it.", "print(next(iter(loader)))"),),
        exhibit=Bars(("untrained weights", "best constant", "chance level"), (untrained, first.constant, first.guess)),
    )
