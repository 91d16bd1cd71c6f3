"""The sign of the loss is flipped."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.aligned_loss import AlignedLoss
from nbdebug.evidence.flow_likelihood import FlowLikelihood
from nbdebug.evidence.loss_response import LossResponse

__all__ = ["loss_sign_flipped"]


@check(
    explains=(
        "cannot-overfit-batch",
        "loss-unbounded-below",
        "worse-than-baseline",
        "initial-loss-off",
        "clamped-output",
    )
)
def loss_sign_flipped(
    response: LossResponse | None,
    flow: FlowLikelihood | None,
    aligned: AlignedLoss | None,
    *,
    toward: float = 0.05,  # a correct loss pulls every element toward its target; a few may be masked; our choice
    likelihood: float = 0.98,  # correlation with the measured log determinants, so that it is surely one of a flow
    gap: float = 1e-3,  # of how far the loss varies with the order of the same values; rounding is below it
) -> Iterator[Finding]:
    """The loss increases when predictions improve, so training makes them worse.

    nbdebug evaluates the loss on synthetic outputs and reads from the gradient whether it pulls them toward their
    targets or pushes them away. The sign is reported as wrong only where the outputs are compared with the targets
    themselves.

    Why it matters: optimizers minimize. A score, a likelihood or an accuracy used directly as the loss, or one minus
    sign too many, drives the predictions away from the targets while the loss curve still falls.

    What to try: minimize the negative of the quantity that should increase, or remove one minus sign.
    """
    if flow is not None and flow.is_lowered and flow.correlation > likelihood:
        yield _of_flow(flow, likelihood)
        return
    heads = response.heads if response is not None else ()
    is_found = False
    judged = [head for head in heads if head.toward is not None and head.target is not None]
    if not judged and aligned is None:
        raise NotApplicable("the loss does not compare outputs with targets elementwise, so no direction is defined")
    for head in judged:
        assert response is not None
        if head.toward is not None and head.toward <= toward and (head.is_compared or head.family == "differences"):
            certain = head.is_compared and head.even_weights and not response.assumed
            is_found = True
            yield Finding(
                f"{response.begins} pushes {1 - head.toward:.0%} of the outputs away from their targets: its value "
                "increases as predictions improve.",
                where=response.place if response.place != "model" else head.place,
                severity="bug" if certain else "suspect",
                evidence={
                    "share of outputs pulled toward their target": head.toward,
                    "threshold": toward,
                    "source": "Full Stack Deep Learning, lecture 7: if the error goes up, look for a flipped sign",
                },
                remedies=(
                    Remedy(
                        "Negate the loss.",
                        "loss = -log_probabilities.mean()  # a likelihood is maximized",
                        Patch("negate-loss"),
                    ),
                    Remedy("Use a built-in PyTorch loss.", "loss = nn.functional.cross_entropy(logits, y)"),
                ),
                exhibit=Bars(("toward target", "away from target"), (head.toward, 1 - head.toward), unit="fraction"),
            )
    if aligned is not None and not is_found and _is_reversed(aligned, gap):
        yield _of_alignment(aligned, gap)


def _is_reversed(loss: AlignedLoss, gap: float) -> bool:
    """Whether the right order of the targets costs more than any other."""
    spread = max(abs(loss.aligned - loss.lowest), abs(loss.aligned), 1e-12)
    return loss.aligned - loss.highest > gap * spread


def _of_flow(flow: FlowLikelihood, threshold: float) -> Finding:
    return Finding(
        "The loss falls as the code of the flow gets farther from 0 and its log determinant smaller: it is the "
        "likelihood, and not its negative.",
        where=flow.place,
        severity="bug",
        evidence={
            "correlation with the measured log determinants": flow.correlation,
            "slope": flow.slope,
            "threshold": threshold,
            "source": "Dinh et al., 2017 (RealNVP), equation 2: the change of variables",
        },
        remedies=(Remedy("Negate the loss.", "loss = -log_likelihood.mean()"),),
    )


def _of_alignment(loss: AlignedLoss, gap: float) -> Finding:
    return Finding(
        f"The loss is {loss.aligned:.4g} where predictions equal their targets, and lower, at most {loss.highest:.4g}, "
        f"where they equal the targets of other samples ({loss.orders} random orders).",
        where=loss.place,
        severity="bug" if loss.is_data else "suspect",
        evidence={
            "loss of the targets": loss.aligned,
            "loss of the same values in other orders": [loss.lowest, loss.highest],
            "threshold": gap,
            "source": "Full Stack Deep Learning, lecture 7: if the error goes up, look for a flipped sign",
        },
        remedies=(Remedy("Negate the loss, or subtract the score from 1.", "loss = 1 - score(outputs, y)"),),
    )
