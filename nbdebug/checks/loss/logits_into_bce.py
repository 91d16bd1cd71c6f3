"""Logits passed to a loss that expects probabilities."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.loss_response import LossResponse

__all__ = ["logits_into_bce"]

CROSS_ENTROPY = Remedy(
    "Use cross-entropy, which expects logits.",
    "loss_fn = nn.CrossEntropyLoss()",
    Patch("replace-loss", {"loss": "cross-entropy"}),
)
WITH_LOGITS = Remedy(
    "Use the loss that expects logits.",
    "loss_fn = nn.BCEWithLogitsLoss()",
    Patch("replace-loss", {"loss": "binary with logits"}),
)


@check(
    explains=("forward-fails", "non-finite-forward", "non-finite-backward", "cannot-overfit-batch", "initial-loss-off")
)
def logits_into_bce(
    response: LossResponse,
    *,
    slack: float = 1e-6,  # rounding of a sigmoid in single precision
) -> Iterator[Finding]:
    """The loss expects probabilities, but the outputs are logits.

    nbdebug evaluates the loss on synthetic outputs: a gradient that follows 1/p and 1/(1-p) means that it expects
    probabilities. Then it scales the last layer up and down and checks whether the outputs stay between 0 and 1.

    Why it matters: outside of 0…1 the logarithm is undefined. `BCELoss` raises an error there; a custom loss returns
    NaN, or no gradient where it clamps.

    What to try: use the loss that expects logits, or end the model with a sigmoid (a softmax for exclusive classes).
    """
    heads = [head for head in response.heads if head.family == "probabilities"]
    if not heads:
        raise NotApplicable("the loss does not take the logarithm of its inputs")
    for head in heads:
        outside = head.seen_low < -slack or head.seen_high > 1 + slack
        could = math.isfinite(head.low) and (head.low < -slack or head.high > 1 + slack)
        if not outside and not could:
            continue
        many = head.target is not None and head.target.shape != head.shape and head.classes > 1
        remedy = CROSS_ENTROPY if many else WITH_LOGITS
        yield Finding(
            f"{response.begins} expects probabilities, but `{head.place}` ({head.module}) outputs values from "
            f"{head.seen_low:.3g} to {head.seen_high:.3g}"
            + ("." if outside else "; nothing keeps them between 0 and 1."),
            where=head.place,
            severity="bug" if outside and not response.assumed else "suspect",
            evidence={
                "lowest output": head.seen_low,
                "highest output": head.seen_high,
                "lowest with the last layer scaled": head.low,
                "highest with the last layer scaled": head.high,
                "threshold": "0 to 1",
                "source": "37 reasons, 19; documentation of torch.nn.BCELoss",
            },
            remedies=(
                remedy,
                Remedy(
                    f"Apply a {'softmax' if many else 'sigmoid'} to the outputs.",
                    f"return scores.{'softmax(dim=1)' if many else 'sigmoid()'}",
                    Patch("put-behind-model", {"function": "softmax" if many else "sigmoid"}),
                ),
            ),
        )
