"""Sigmoid outputs are passed to a loss that applies its own sigmoid."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.loss_response import LossResponse

__all__ = ["sigmoid_before_bce_with_logits"]

LOGITS = Patch("replace-loss", {"loss": "binary with logits"})


@check(explains=("clamped-output", "cannot-overfit-batch", "worse-than-baseline", "vanishing-gradients"))
def sigmoid_before_bce_with_logits(
    response: LossResponse,
    *,
    shortfall: float = 0.1,  # after a sigmoid a perfect prediction keeps at least 45 % of the chance-level loss
) -> Iterator[Finding]:
    """The model applies a sigmoid before a loss that applies its own.

    nbdebug rescales the last layer: outputs that always stay between 0 and 1 are squashed, whichever operation does it.
    And it evaluates the loss on synthetic outputs: a gradient that follows their sigmoid is a binary cross-entropy with
    logits.

    Why it matters: the sigmoid of a probability lies between 0.5 and 0.73, so the model can never predict the negative
    class with confidence; the loss stays high and the gradients are small.

    What to try: remove the sigmoid at the place named, or use BCELoss, which expects probabilities.
    """
    if not any(head.family in ("logistic", "sigmoid-twice") for head in response.heads):
        raise NotApplicable("the loss is not a binary cross-entropy with logits")
    for head in response.heads:
        squashed = head.family == "logistic" and head.is_unit_interval and head.shortfall > shortfall
        if not squashed and head.family != "sigmoid-twice":
            continue
        where = head.place if squashed else response.place
        best, least, chance = head.reachable or 0.0, head.floor or 0.0, head.chance or 0.0
        source = f"receives values between 0 and 1 from `{head.place}` ({head.module})"
        bound = f"The loss can never fall below {best:.3g} (chance level {chance:.3g})."
        yield Finding(
            f"{response.begins} expects logits but {source}. {bound}"
            if squashed
            else f"{response.begins} applies a sigmoid twice.",
            where=where,
            severity="suspect" if response.assumed else "bug",
            evidence={
                "least loss within 0 and 1": best,
                "least loss with logits": least,
                "loss of guessing": chance,
                "threshold": shortfall,
                "source": "37 reasons, 19; Full Stack Deep Learning, lecture 7",
            },
            remedies=(
                Remedy(
                    "Remove the sigmoid from forward; the loss applies it.",
                    "logits = model(x)\nloss = nn.functional.binary_cross_entropy_with_logits(logits, y)\n"
                    "probabilities = logits.sigmoid()  # for predictions only",
                    Patch("drop-last-activation", {"inverse": "logit"}) if squashed else LOGITS,
                ),
                Remedy(
                    "Keep the sigmoid and use `BCELoss`.",
                    "loss_fn = nn.BCELoss()",
                    Patch("replace-loss", {"loss": "binary"}) if squashed else None,
                ),
            ),
            exhibit=Bars(
                ("chance level", "minimum with sigmoid", "minimum with logits"), (chance, best, least), unit="loss"
            ),
        )
