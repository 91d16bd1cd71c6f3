"""The sign of the loss is flipped."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
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
    *,
    toward: float = 0.05,  # a correct loss pulls every element toward its target; a few may be masked; our choice
    likelihood: float = 0.98,  # correlation with the measured log determinants, so that it is surely one of a flow
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
    judged = [head for head in heads if head.toward is not None and head.target is not None]
    if response is None or not judged:
        raise NotApplicable("the loss does not compare outputs with targets elementwise, so no direction is defined")
    for head in judged:
        if head.toward is not None and head.toward <= toward and (head.is_compared or head.family == "differences"):
            certain = head.is_compared and head.even_weights and not response.assumed
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
