"""A last activation that cannot reach the targets."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy, Severity
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.loss_response import HeadResponse, LossResponse

__all__ = ["clamped_output"]

SCORES = ("softmax", "differences", "logistic")
CLIPPED = ("softmax", "probabilities")  # losses whose gradient does not pass an activation that is clipped at its bound
REMEDY = Remedy(
    "Remove the activation after the last layer.",
    "return self.head(hidden)",
    Patch("drop-last-activation"),
)
SIGMOID = Remedy(
    "Use a sigmoid instead: it stays in 0…1 as well, and its gradient is never zero.",
    "return self.head(hidden).sigmoid()",
    Patch("drop-last-activation", {"instead": "sigmoid"}),
)


@check(
    explains=(
        "initial-loss-off",
        "cannot-overfit-batch",
        "worse-than-baseline",
        "dead-units",
        "saturated-units",
        "vanishing-gradients",
    )
)
def clamped_output(
    response: LossResponse,
    *,
    unreachable: float = 0.02,  # share of targets; a few outliers beyond a physical bound are legitimate; our choice
    surely: float = 2.0,  # times `unreachable`: a bug; our choice
    shortfall: float = 0.1,  # of the gap between chance level and a perfect loss; tanh before two classes gives 0.18
    clipped: float = 0.1,  # share of outputs exactly at the bound; an untrained ReLU gives 0.5
    one_sided: float = 0.9,  # of the outputs; a ReLU gives 1, one followed by pooling far less
) -> Iterator[Finding]:
    """The last activation keeps the outputs from reaching the targets.

    nbdebug scales the last layer up and down to find the range of the outputs, reads from the gradient which values the
    loss pulls them toward, and compares the two.

    Why it matters: a ReLU before a regression loss cannot output a negative number, a sigmoid none above 1, and a tanh
    before cross-entropy can never be confident. The model cannot fit the targets however long it trains.

    What to try: remove the activation after the last layer, or scale the targets into its range. Where the loss expects
    probabilities, replace the activation that clips them with a sigmoid or a softmax.
    """
    heads = [head for head in response.heads if head.family in (*SCORES, "probabilities", "squared", "distance")]
    if not heads:
        raise NotApplicable("the loss does not pull the outputs toward a value")
    for head in heads:
        if head.family in ("squared", "distance"):
            if head.unreachable > unreachable and (head.is_compared or head.family == "squared"):
                yield _out_of_range(response, head, unreachable, surely)
        elif head.family in SCORES and _is_bounded(head) and head.shortfall > shortfall:
            yield _bounded_logits(response, head, shortfall)
        elif head.low == 0 and head.clipped > clipped and head.one_sided > one_sided and _limits_loss(head, shortfall):
            yield _clipped(response, head, clipped)


def _is_bounded(head: HeadResponse) -> bool:
    """Return whether the outputs are bounded and no more specific check covers them."""
    return head.is_bounded and not head.over and not (head.family == "logistic" and head.is_unit_interval)


def _limits_loss(head: HeadResponse, shortfall: float) -> bool:
    """Return whether non-negative scores limit the loss: their sigmoid never falls below 0.5."""
    return head.family in CLIPPED or (head.family == "logistic" and not head.over and head.shortfall > shortfall)


def _out_of_range(response: LossResponse, head: HeadResponse, unreachable: float, surely: float) -> Finding:
    return Finding(
        f"{head.unreachable:.0%} of the targets are out of range: `{head.place}` ({head.module}) can only output "
        f"{head.low:.3g} to {head.high:.3g}, but the targets range from {head.wanted_low:.3g} to "
        f"{head.wanted_high:.3g}.",
        where=head.place,
        severity="bug" if head.unreachable > surely * unreachable and not response.assumed else "suspect",
        evidence={
            "lowest possible output": head.low,
            "highest possible output": head.high,
            "lowest target": head.wanted_low,
            "highest target": head.wanted_high,
            "share of targets out of reach": head.unreachable,
            "threshold": unreachable,
            "source": "Full Stack Deep Learning, lecture 7",
        },
        remedies=(REMEDY, Remedy("Scale the targets into the output range.", "y = (y - y.mean()) / y.std()")),
    )


def _bounded_logits(response: LossResponse, head: HeadResponse, shortfall: float) -> Finding:
    best, chance = head.reachable or 0.0, head.chance or 0.0
    severity: Severity = "suspect" if response.assumed or head.family == "differences" else "bug"
    if head.clipped == 1 and head.seen_low < head.seen_high:
        severity = "note"  # spikes or votes, each of which is one bound or the other: a code, and no activation
    return Finding(
        f"`{head.place}` ({head.module}) can only output {head.low:.3g} to {head.high:.3g}, so {response.named} can "
        f"never fall below {best:.3g} (chance level {chance:.3g}).",
        where=head.place,
        severity=severity,
        evidence={
            "least loss within these bounds": best,
            "least loss with free outputs": head.floor,
            "loss of guessing": chance,
            "threshold": shortfall,
            "source": "Full Stack Deep Learning, lecture 7",
        },
        remedies=(REMEDY, Remedy("Scale cosine similarities with a temperature.", "logits = cosine * 20")),
        exhibit=Bars(
            ("chance level", "best in range", "best unbounded"), (chance, best, head.floor or 0.0), unit="loss"
        ),
    )


def _clipped(response: LossResponse, head: HeadResponse, clipped: float) -> Finding:
    return Finding(
        f"`{head.place}` ({head.module}) clips the scores at 0: {head.clipped:.0%} of them sit there, where "
        f"{response.named} has no gradient.",
        where=head.place,
        severity="suspect",
        evidence={
            "share of scores at the bound": head.clipped,
            "threshold": clipped,
            "source": "Full Stack Deep Learning, lecture 7: an activation after the last layer",
        },
        remedies=(SIGMOID if head.family == "probabilities" else REMEDY,),
    )
