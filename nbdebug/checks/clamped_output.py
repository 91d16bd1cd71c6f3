"""A last activation that cannot reach the targets."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import HeadResponse, LossResponse
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["clamped_output"]

SCORES = ("softmax", "differences", "logistic")
CUT = ("softmax", "probabilities")  # losses that nothing at the bound can learn from: it has no slope
REMEDY = Remedy(
    "Let the last layer be linear: no activation behind it.",
    "return self.head(hidden)",
    Patch("drop-last-activation"),
)
SIGMOID = Remedy(
    "A sigmoid in its place: it keeps to 0…1 as well, and has a slope everywhere.",
    "return self.head(hidden).sigmoid()",
    Patch("drop-last-activation", {"instead": "sigmoid"}),
)


@check(
    explains=(
        "initial-loss-off",
        "batch-not-memorised",
        "worse-than-baseline",
        "dead-units",
        "saturated-units",
        "vanishing-gradients",
    )
)
def clamped_output(
    response: LossResponse,
    *,
    unreachable: float = 0.02,  # share of targets; a few outliers beyond a physical bound are legitimate
    shortfall: float = 0.1,  # of the way from guessing to a perfect loss; tanh before two classes gives 0.18
    clipped: float = 0.1,  # share of outputs exactly at the bound; a ReLU without training gives 0.5
    one_sided: float = 0.9,  # of the outputs; a ReLU gives 1, one with a pooling behind it far less
) -> Iterator[Finding]:
    """The last activation keeps the outputs from where the loss wants them.

    nbdebug scales the last layer up and down to see which values the outputs can take at all, reads off the gradient
    which values the loss pulls them to, and compares.

    Why it matters: a ReLU in front of a regression cannot give a negative number, a sigmoid none above 1, and a
    tanh in front of cross-entropy can never be certain. The model cannot fit however long it trains.

    What to try: remove the activation behind the last layer, or scale the targets into its range. Where the loss takes
    probabilities, put a sigmoid or a softmax in place of what cuts them off.
    """
    heads = [head for head in response.heads if head.family in (*SCORES, "probabilities", "squared", "distance")]
    if not heads:
        raise NotApplicable("the loss has no value that it pulls the outputs to")
    for head in heads:
        if head.family in ("squared", "distance"):
            if head.unreachable > unreachable and (head.is_compared or head.family == "squared"):
                yield _out_of_range(response, head, unreachable)
        elif head.family in SCORES and _is_held(head) and head.shortfall > shortfall:
            yield _cannot_be_certain(response, head, shortfall)
        elif head.low == 0 and head.clipped > clipped and head.one_sided > one_sided and _loses(head, shortfall):
            yield _cut_off(response, head, clipped)


def _is_held(head: HeadResponse) -> bool:
    """Whether the outputs have bounds, and none of the checks with a more exact name speaks about them."""
    return head.is_bounded and not head.over and not (head.family == "logistic" and head.is_unit_interval)


def _loses(head: HeadResponse, shortfall: float) -> bool:
    """Whether the loss suffers from scores that are never negative: a sigmoid of them never says no."""
    return head.family in CUT or (head.family == "logistic" and not head.over and head.shortfall > shortfall)


def _out_of_range(response: LossResponse, head: HeadResponse, unreachable: float) -> Finding:
    return Finding(
        f"The outputs of {head.place} ({head.module}) stay between {head.low:.3g} and {head.high:.3g} whatever its "
        f"weights, but the targets go from {head.wanted_low:.3g} to {head.wanted_high:.3g}: {head.unreachable:.0%} of "
        "them are out of reach.",
        where=head.place,
        severity="bug" if head.unreachable > 2 * unreachable and not response.assumed else "suspect",
        evidence={
            "lowest possible output": head.low,
            "highest possible output": head.high,
            "lowest target": head.wanted_low,
            "highest target": head.wanted_high,
            "share of targets out of reach": head.unreachable,
            "threshold": unreachable,
            "source": "Full Stack Deep Learning, lecture 7",
        },
        remedies=(REMEDY, Remedy("Or scale the targets into the range.", "y = (y - y.mean()) / y.std()")),
    )


def _cannot_be_certain(response: LossResponse, head: HeadResponse, shortfall: float) -> Finding:
    best, chance = head.reachable or 0.0, head.chance or 0.0
    return Finding(
        f"The outputs of {head.place} ({head.module}) stay between {head.low:.3g} and {head.high:.3g} whatever its "
        f"weights, so {response.named} cannot fall below {best:.3g} (guessing: {chance:.3g}).",
        where=head.place,
        severity="suspect" if response.assumed or head.family == "differences" else "bug",
        evidence={
            "least loss within these bounds": best,
            "least loss with free outputs": head.floor,
            "loss of guessing": chance,
            "threshold": shortfall,
            "source": "Full Stack Deep Learning, lecture 7",
        },
        remedies=(REMEDY, Remedy("Cosines need a temperature.", "logits = cosine * 20")),
        exhibit=Bars(("guessing", "best within bounds", "best free"), (chance, best, head.floor or 0.0), unit="loss"),
    )


def _cut_off(response: LossResponse, head: HeadResponse, clipped: float) -> Finding:
    return Finding(
        f"The scores of {head.place} ({head.module}) are cut off at 0, where {head.clipped:.0%} of them sit: no "
        f"gradient of {response.named} passes there.",
        where=head.place,
        severity="suspect",
        evidence={
            "share of scores at the bound": head.clipped,
            "threshold": clipped,
            "source": "Full Stack Deep Learning, lecture 7: an activation behind the last layer",
        },
        remedies=(SIGMOID if head.family == "probabilities" else REMEDY,),
    )
