"""A loss for another kind of task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nbdebug.errors import NotApplicable
from nbdebug.evidence import HeadResponse, LossResponse, TargetKind
from nbdebug.finding import Finding, Patch, Remedy, Severity
from nbdebug.registry import check

__all__ = ["wrong_loss_for_task"]

SOURCE = "37 reasons, 16 and 18"
CROSS_ENTROPY = Remedy(
    "One score for each class, and cross-entropy.",
    "head = nn.Linear(hidden, number_of_classes)\nloss_fn = nn.CrossEntropyLoss()  # with class ids as targets",
    Patch("replace-loss", {"loss": "cross-entropy"}),
)
SQUARED = Remedy("A squared error.", "loss_fn = nn.MSELoss()", Patch("replace-loss", {"loss": "squared"}))
BINARY = Remedy(
    "A binary loss with logits.",
    "loss_fn = nn.BCEWithLogitsLoss()\nloss = loss_fn(logits, y.float().view_as(logits))",
    Patch("replace-loss", {"loss": "binary with logits"}),
)


@check(explains=("batch-not-memorised", "worse-than-baseline", "initial-loss-off", "loss-not-differentiable"))
def wrong_loss_for_task(
    response: LossResponse,
    *,
    many_hot: float = 0.1,  # share of rows with no or several labels; below that it may be noise in exclusive labels
    most_classes: int = 20,  # whole numbers with more values than this are counts or years, not classes
    evenness: float = 0.3,  # rarest class against the mean; counts and ratings have rare values at their ends
    order_p: float = 0.05,  # classes whose neighbours are alike have an order, and a regression may be meant
) -> Iterator[Finding]:
    """The loss belongs to another kind of task than the targets.

    nbdebug recognises the loss by its gradient and compares it with what the targets hold: class numbers, one label
    in a row or several, values between 0 and 1, real numbers.

    Why it matters: a loss for another task may run without an error and even fall. Cross-entropy over a single score is
    always 0; a squared error on class numbers says that a 3 lies between a 2 and a 4; a softmax cannot say that two
    labels are both right.

    What to try: cross-entropy for one of several classes, binary cross-entropy with logits for yes or no and for
    several labels at once, a squared or absolute error for real numbers.
    """
    for head in response.heads:
        if head.family == "constant":
            yield _constant(response, head)
            continue
        said = _judge(head, many_hot, most_classes, evenness, order_p)
        if said is not None:
            says, severity, remedy = said
            yield _found(response, head, says, severity, remedy)
    if not any(head.target is not None or head.family == "constant" for head in response.heads):
        raise NotApplicable("no output is compared with a target")


Said = tuple[str, Severity, Remedy]


def _judge(head: HeadResponse, many_hot: float, most: int, evenness: float, order_p: float) -> Said | None:
    target = head.target
    if target is None:
        return None
    same = target.shape == head.shape
    if head.family == "softmax" and same:
        return _softmax_of(target, many_hot)
    low, high = head.wanted_low, head.wanted_high
    if head.family in ("logistic", "probabilities") and low is not None and high is not None and _as_many(head):
        if low >= -0.01 and high <= 1.01:
            return _binary_of(head, target)
        says = f"is a binary loss, but the targets go from {target.low:.3g} to {target.high:.3g}"
        return says, "bug", CROSS_ENTROPY if target.integral else SQUARED
    if head.family in ("squared", "distance") and _as_many(head):
        return _distance_of(head, target, most, evenness, order_p)
    return None


def _binary_of(head: HeadResponse, target: TargetKind) -> Said | None:
    if head.family == "logistic" and target.shape == head.shape and target.one_hot == 1 and head.shape[1] > 2:
        return f"judges {head.shape[1]} classes one by one, though each sample has exactly one", "note", CROSS_ENTROPY
    return None


def _as_many(head: HeadResponse) -> bool:
    return head.target is not None and _count(head.target.shape) == _count(head.shape)


def _count(shape: tuple[int, ...]) -> int:
    return 1 if not shape else shape[0] * _count(shape[1:])


def _softmax_of(target: TargetKind, many_hot: float) -> Said | None:
    if target.many_hot > many_hot:
        says = f"lets one class win, but {target.many_hot:.0%} of the rows of the targets hold no label or several"
        return says, "suspect", BINARY
    if target.low < -1e-3:
        says = f"expects classes or shares of classes, but the targets are real numbers from {target.low:.3g} to "
        return f"{says}{target.high:.3g}", "bug", SQUARED
    return None


def _distance_of(head: HeadResponse, target: TargetKind, most: int, evenness: float, order_p: float) -> Said | None:
    if target.one_hot == 1 and not head.over and not head.is_unit_interval:
        return "measures a distance to one-hot rows, which cross-entropy does better", "note", CROSS_ENTROPY
    numbered = target.integral and target.low == 0 and target.high == target.distinct - 1
    if not numbered:
        return None
    if target.distinct == 2 and not head.is_unit_interval:
        return "measures a distance to 0 and 1, for which a binary cross-entropy is made", "note", BINARY
    nominal = target.order_p is not None and target.order_p > order_p
    if 3 < target.distinct <= most and nominal and target.evenness > evenness:
        says = (
            f"measures distances between class numbers 0 to {target.high:.0f}, and neighbouring numbers are not alike"
        )
        return says, "suspect", CROSS_ENTROPY
    return None


def _constant(response: LossResponse, head: HeadResponse) -> Finding:
    single = head.shape[-1] == 1 or (len(head.shape) > 1 and head.shape[1] == 1)
    why = ", because the softmax of a single score is always 1" if single else ""
    says = f"does not change with the outputs of shape {head.shape}{why}"
    found = _found(response, head, says, "bug", BINARY if single else CROSS_ENTROPY)
    return replace(found, explains=("loss-ignores-targets", "learning-rate-too-low"))


def _found(response: LossResponse, head: HeadResponse, says: str, severity: Severity, remedy: Remedy) -> Finding:
    target = head.target
    return Finding(
        f"{response.begins} {says}.",
        where=response.place if response.place != "model" else head.place,
        severity="suspect" if severity == "bug" and response.assumed else severity,
        evidence={
            "kind of loss": head.family,
            "outputs": str(head.shape),
            "targets": str(target.shape) if target is not None else "",
            "distinct target values": target.distinct if target is not None else 0,
            "p-value of an order among the classes": target.order_p if target is not None else None,
            "threshold": "see nbdebug.explain",
            "source": SOURCE,
        },
        remedies=(remedy,),
    )
