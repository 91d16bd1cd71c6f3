"""Probabilities are passed to a loss that expects logits."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.loss_response import HeadResponse, LossResponse

__all__ = ["softmax_before_cross_entropy"]

REMEDIES = (
    Remedy(
        "Pass logits to the loss: remove the softmax from forward and apply it only for predictions.",
        "logits = model(x)\nloss = nn.functional.cross_entropy(logits, y)\nprobabilities = logits.softmax(dim=1)",
        Patch("drop-last-activation", {"inverse": "log"}),
    ),
    Remedy(
        "If the model must return probabilities, take their logarithm and use `NLLLoss`.",
        "loss = nn.functional.nll_loss(model(x).clamp_min(1e-8).log(), y)",
        Patch("put-behind-model", {"function": "log"}),
    ),
)
IN_THE_LOSS = Remedy(
    "Remove the softmax from your loss; cross-entropy applies its own.",
    "loss_fn = nn.CrossEntropyLoss()",
    Patch("replace-loss", {"loss": "cross-entropy"}),
)


@check(explains=("clamped-output", "cannot-overfit-batch", "worse-than-baseline", "vanishing-gradients"))
def softmax_before_cross_entropy(
    response: LossResponse,
    *,
    shortfall: float = 0.1,  # a softmax limits the loss to log(1 + (C-1)/e), 45 % of chance level for two classes
) -> Iterator[Finding]:
    """The model passes probabilities to a loss that applies its own softmax.

    nbdebug rescales the last layer: outputs that still sum to 1 are probabilities, whichever operation computes them.
    And it evaluates the loss on synthetic outputs: a gradient that follows the softmax of the outputs is a
    cross-entropy of logits.

    Why it matters: the second softmax flattens the distribution. Even a perfect prediction keeps a high loss, the
    gradients shrink, and training is slow or stops far from the optimum, often without looking broken.

    What to try: remove the softmax at the place named and pass logits to the loss.
    """
    if not any(head.loss_dim is not None or head.family == "softmax-twice" for head in response.heads):
        raise NotApplicable("the loss is not a cross-entropy of logits")
    for head in response.heads:
        if head.family == "softmax-twice":
            yield _found(head, response, response.place, "applies a softmax twice")
        elif (
            head.family in ("softmax", "differences")
            and head.scale == "probabilities"
            and head.loss_dim in head.over
            and head.shortfall > shortfall
        ):
            yield _found(
                head,
                response,
                head.place,
                f"expects logits but receives probabilities from `{head.place}` ({head.module})",
            )


def _found(head: HeadResponse, response: LossResponse, where: str, does: str) -> Finding:
    classes = max(head.classes, 2)
    best = head.reachable if head.reachable is not None else math.log(1 + (classes - 1) / math.e)
    least = head.floor if head.family != "softmax-twice" and head.floor is not None else 0.0
    chance = head.chance if head.chance is not None else math.log(classes)
    return Finding(
        f"{response.begins} {does}. The loss can never fall below {best:.3g} "
        f"(chance level {chance:.3g}, {classes} classes).",
        where=where,
        severity="suspect" if response.assumed or head.family == "differences" else "bug",
        evidence={
            "least loss with probabilities": best,
            "least loss with logits": least,
            "loss of guessing": chance,
            "classes": classes,
            "threshold": "the minimum loss is more than 10 % of chance level too high",
            "source": "37 reasons, 19; Full Stack Deep Learning, lecture 7",
        },
        remedies=(IN_THE_LOSS,) if head.family == "softmax-twice" else REMEDIES,
        exhibit=Bars(
            ("chance level", "minimum with softmax", "minimum with logits"), (chance, best, least), unit="loss"
        ),
    )
