"""Probabilities where logits are due."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import HeadResponse, LossResponse
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["softmax_before_cross_entropy"]

REMEDIES = (
    Remedy(
        "Give the loss the raw scores: leave the softmax out of the forward, and apply it only to show probabilities.",
        "logits = model(x)\nloss = nn.functional.cross_entropy(logits, y)\nprobabilities = logits.softmax(dim=1)",
        Patch("drop-last-activation", {"inverse": "log"}),
    ),
    Remedy(
        "If the model has to return probabilities, take their logarithm and use NLLLoss.",
        "loss = nn.functional.nll_loss(model(x).clamp_min(1e-8).log(), y)",
        Patch("put-behind-model", {"function": "log"}),
    ),
)
IN_THE_LOSS = Remedy(
    "Leave the softmax out of your loss; cross-entropy has its own.",
    "loss_fn = nn.CrossEntropyLoss()",
    Patch("replace-loss", {"loss": "cross-entropy"}),
)


@check(explains=("clamped-output", "batch-not-memorised", "worse-than-baseline", "vanishing-gradients"))
def softmax_before_cross_entropy(
    response: LossResponse,
    *,
    shortfall: float = 0.1,  # the rows of a softmax reach at best log(1 + (C-1)/e), 45 % of the way for two classes
) -> Iterator[Finding]:
    """The model gives probabilities to a loss that applies a softmax itself.

    nbdebug scales the last layer up and down: outputs that still sum to 1 are probabilities, whoever computes them. And
    it hands the loss made-up outputs: a gradient that follows the softmax of the outputs is a cross-entropy of logits.

    Why it matters: the second softmax flattens everything. Even a perfect prediction keeps a high loss, the gradients
    shrink, and training is slow or stops far from where it could go, often without looking broken.

    What to try: remove the softmax at the place named and give the loss the raw scores.
    """
    if not any(head.loss_dim is not None or head.family == "softmax-twice" for head in response.heads):
        raise NotApplicable("the loss is no cross-entropy of logits")
    for head in response.heads:
        if head.family == "softmax-twice":
            yield _found(head, response, response.place, "squashes the outputs itself, and then once more")
        elif (
            head.family in ("softmax", "differences")
            and head.scale == "probabilities"
            and head.loss_dim in head.over
            and head.shortfall > shortfall
        ):
            yield _found(head, response, head.place, f"gets probabilities from {head.place} ({head.module})")


def _found(head: HeadResponse, response: LossResponse, where: str, does: str) -> Finding:
    classes = max(head.classes, 2)
    best = head.reachable if head.reachable is not None else math.log(1 + (classes - 1) / math.e)
    least = head.floor if head.family != "softmax-twice" and head.floor is not None else 0.0
    chance = head.chance if head.chance is not None else math.log(classes)
    return Finding(
        f"{response.begins} applies a softmax, but {does}: a perfect prediction of {classes} classes would still have "
        f"a loss of {best:.3g} instead of {least:.3g} (guessing: {chance:.3g}).",
        where=where,
        severity="suspect" if response.assumed or head.family == "differences" else "bug",
        evidence={
            "least loss with probabilities": best,
            "least loss with logits": least,
            "loss of guessing": chance,
            "classes": classes,
            "threshold": "more than 10 % of the way from guessing to perfect is out of reach",
            "source": "37 reasons, 19; Full Stack Deep Learning, lecture 7",
        },
        remedies=(IN_THE_LOSS,) if head.family == "softmax-twice" else REMEDIES,
        exhibit=Bars(("guessing", "perfect, after softmax", "perfect, logits"), (chance, best, least), unit="loss"),
    )
