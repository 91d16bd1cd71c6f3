"""Better predictions give a larger loss."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import LossResponse
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["loss_sign_flipped"]


@check(explains=("batch-not-memorised", "worse-than-baseline", "initial-loss-off", "clamped-output"))
def loss_sign_flipped(
    response: LossResponse,
    *,
    toward: float = 0.05,  # a healthy loss pulls every element to its target; a few may be masked
) -> Iterator[Finding]:
    """The loss grows when predictions get better, so training makes them worse.

    nbdebug hands the loss made-up outputs and reads off the gradient which values it pulls them to or pushes them from.
    Only where these values are the targets themselves is it said that the sign is wrong.

    Why it matters: the optimizer minimises. A score, a likelihood or an accuracy handed over as it is, or one minus too
    many, makes it walk away from the answer, and the curve still falls.

    What to try: minimise the negative of what should grow, or remove one minus.
    """
    judged = [head for head in response.heads if head.toward is not None and head.target is not None]
    if not judged:
        raise NotApplicable("outputs and targets are not compared in a way that has a direction")
    for head in judged:
        if head.toward is not None and head.toward <= toward and (head.is_compared or head.family == "differences"):
            certain = head.is_compared and head.even_weights and not response.assumed
            yield Finding(
                f"{response.begins} pushes {1 - head.toward:.0%} of the outputs away from their targets: the better "
                "the prediction, the larger the loss.",
                where=response.place if response.place != "model" else head.place,
                severity="bug" if certain else "suspect",
                evidence={
                    "share of outputs pulled toward their target": head.toward,
                    "threshold": toward,
                    "source": "Full Stack Deep Learning, lecture 7: if the error goes up, look for a flipped sign",
                },
                remedies=(
                    Remedy(
                        "Change the sign.",
                        "loss = -log_probabilities.mean()  # a likelihood is maximised",
                        Patch("negate-loss"),
                    ),
                    Remedy("Use torch's own loss.", "loss = nn.functional.cross_entropy(logits, y)"),
                ),
                exhibit=Bars(("toward the target", "away from it"), (head.toward, 1 - head.toward), unit="share"),
            )
