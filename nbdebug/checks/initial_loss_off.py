"""The first loss against what guessing would give."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import FirstGuess, InitialLoss
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["initial_loss_off"]


@check
def initial_loss_off(
    initial: InitialLoss,
    *,
    too_high: float = 3.0,  # TheDeepChecker: 2 times ln C; a factor more, because wide heads start noisy
    nats: float = 6.0,  # with many classes: outputs with a standard deviation of 3.5 start so far above ln C
    too_low: float = 0.5,  # of the best constant answer, which no model without knowledge can beat by much
    fewest: int = 16,  # answers in the batch; fewer can be right by luck
) -> Iterator[Finding]:
    """The first loss is far from what guessing would give.

    A model that knows nothing should say that nothing is known: all classes equally likely, or the mean of the targets.
    nbdebug hands exactly that to the loss and compares. For "too low" it gives copies of the model fresh weights, so
    that a model which has been trained is not blamed for what it knows. A start that is too high is only noted where
    the first steps of the training make up for it.

    Why it matters: a first loss far above chance means that the model begins by being confidently wrong. The first
    steps are spent on unlearning that, and with large inputs or weights they may never end. A first loss far below
    chance, with weights that nobody has trained, means that the answer is on its way into the outputs already.

    What to try: too high: initialise the last layer small, normalise inputs and targets, look for a missing scaling.
    Too low: look for targets among the inputs, and for a loss that counts almost nothing.
    """
    judged = [first for first in initial.guesses if first.guess > 0 and not first.is_constant]
    if not judged:
        raise NotApplicable("one answer is right for all samples, or the loss of a guess is not positive")
    for first in judged:
        limit = too_high if first.classes < 3 else min(too_high, 1 + nats / math.log(first.classes))
        if first.loss > limit * first.guess:
            yield _too_high(first, limit)
        elif _knows(first, too_low, fewest):
            yield _knows_already(first, too_low)


def _knows(first: FirstGuess, too_low: float, fewest: int) -> bool:
    fresh = [loss for loss in first.untrained if math.isfinite(loss)]
    if first.kind == "regression" or first.rows < fewest or len(fresh) < 3 or first.constant <= 0:
        return False  # a residual network may rightly start with a good guess of a number
    return max(fresh) < too_low * first.constant


def _too_high(first: FirstGuess, limit: float) -> Finding:
    return Finding(
        f"The first loss is {first.loss:.3g}; guessing ({first.says}) would give {first.guess:.3g}."
        + (f" A few steps of training make up for it ({first.soon:.3g})." if first.soon < first.guess else ""),
        where=first.place,
        severity="note" if first.soon < first.guess else "suspect",
        evidence={
            "first loss": first.loss,
            "loss after a few steps": first.soon,
            "loss of guessing": first.guess,
            "loss of the best constant answer": first.constant,
            "threshold": f"{limit:.3g} times the loss of guessing",
            "source": "37 reasons, 17; TheDeepChecker",
        },
        remedies=(
            Remedy(
                "Start the last layer small.",
                "nn.init.normal_(head.weight, std=0.01); nn.init.zeros_(head.bias)",
                Patch("small-head"),
            ),
            Remedy("Normalise the inputs.", "x = (x - x.mean(0)) / x.std(0)", Patch("standardise-inputs")),
        ),
        exhibit=Bars(("first loss", "guessing", "best constant"), (first.loss, first.guess, first.constant)),
    )


def _knows_already(first: FirstGuess, too_low: float) -> Finding:
    fresh = max(first.untrained)
    return Finding(
        f"With fresh weights, which nobody has trained, the loss is at most {fresh:.3g}; without a look at the sample "
        f"the best possible is {first.constant:.3g}. The answer seems to be among the inputs.",
        where=first.place,
        severity="suspect",
        evidence={
            "loss with fresh weights": fresh,
            "loss of the best constant answer": first.constant,
            "answers": first.rows,
            "threshold": too_low,
            "source": "neural-net-checklist: too low is the sign of leakage",
        },
        remedies=(Remedy("Look at what the model receives.", "print(next(iter(loader)))"),),
        exhibit=Bars(("fresh weights", "best constant", "guessing"), (fresh, first.constant, first.guess)),
    )
