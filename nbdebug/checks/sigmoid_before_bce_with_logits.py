"""A sigmoid, and then another one."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import LossResponse
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["sigmoid_before_bce_with_logits"]

LOGITS = Patch("replace-loss", {"loss": "binary with logits"})


@check(explains=("clamped-output", "batch-not-memorised", "worse-than-baseline", "vanishing-gradients"))
def sigmoid_before_bce_with_logits(
    response: LossResponse,
    *,
    shortfall: float = 0.1,  # after a sigmoid a perfect prediction keeps at least 45 % of the loss of guessing
) -> Iterator[Finding]:
    """The model squashes its outputs to 0…1 before a loss that applies the sigmoid itself.

    nbdebug scales the last layer up and down: outputs that never leave the range from 0 to 1 are squashed, whoever does
    it. And it hands the loss made-up outputs: a gradient that follows their sigmoid is a binary loss with logits.

    Why it matters: the sigmoid of a probability lies between 0.5 and 0.73, so the model can never say "no" and hardly
    "yes"; the loss stays high and the gradients are small.

    What to try: remove the sigmoid at the place named, or use BCELoss, which takes probabilities.
    """
    if not any(head.family in ("logistic", "sigmoid-twice") for head in response.heads):
        raise NotApplicable("the loss is no binary cross-entropy with logits")
    for head in response.heads:
        squashed = head.family == "logistic" and head.is_unit_interval and head.shortfall > shortfall
        if not squashed and head.family != "sigmoid-twice":
            continue
        where = head.place if squashed else response.place
        does = f"gets values between 0 and 1 from {head.place} ({head.module})" if squashed else "does so twice"
        best, least, chance = head.reachable or 0.0, head.floor or 0.0, head.chance or 0.0
        reached = f": a perfect prediction would still have a loss of {best:.3g} (guessing: {chance:.3g})"
        yield Finding(
            f"{response.begins} applies a sigmoid, but {does}{reached if squashed else ''}.",
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
                    "Leave the sigmoid out of the forward; the loss has it.",
                    "logits = model(x)\nloss = nn.functional.binary_cross_entropy_with_logits(logits, y)\n"
                    "probabilities = logits.sigmoid()  # only to look at",
                    Patch("drop-last-activation", {"inverse": "logit"}) if squashed else LOGITS,
                ),
                Remedy(
                    "Or keep the sigmoid and use the loss that expects it.",
                    "loss_fn = nn.BCELoss()",
                    Patch("replace-loss", {"loss": "binary"}) if squashed else None,
                ),
            ),
            exhibit=Bars(("guessing", "perfect, squashed", "perfect, logits"), (chance, best, least), unit="loss"),
        )
