"""The loss does not match the task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from nbdebug.core.finding import Finding, Patch, Remedy, Severity
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.loss_response import HeadResponse, LossResponse
from nbdebug.experiments.targets import TargetKind

__all__ = ["wrong_loss_for_task"]

UNBOUNDED = ("loss-unbounded-below",)
SOURCE = "37 reasons, 16 and 18"
CROSS_ENTROPY = Remedy(
    "Use one logit per class and cross-entropy.",
    "head = nn.Linear(hidden, number_of_classes)\nloss_fn = nn.CrossEntropyLoss()  # with class indices as targets",
    Patch("replace-loss", {"loss": "cross-entropy"}),
)
SQUARED = Remedy("Use a squared error.", "loss_fn = nn.MSELoss()", Patch("replace-loss", {"loss": "squared"}))
BINARY = Remedy(
    "Use binary cross-entropy with logits.",
    "loss_fn = nn.BCEWithLogitsLoss()\nloss = loss_fn(logits, y.float().view_as(logits))",
    Patch("replace-loss", {"loss": "binary with logits"}),
)


@check(
    basis="statistic",
    explains=("cannot-overfit-batch", "worse-than-baseline", "initial-loss-off", "loss-not-differentiable"),
)
def wrong_loss_for_task(
    response: LossResponse,
    *,
    many_hot: float = 0.1,  # fraction of rows with no or several labels; below that it may be label noise; our choice
    most_classes: int = 20,  # integers with more distinct values are counts or years, not classes; our choice
    fewest_classes: int = 4,  # three may be below, between and above, which are ordered; our choice
    evenness: float = 0.3,  # rarest class over the mean; counts and ratings have rare values at both ends; our choice
    order_p: float = 0.05,  # the usual level: if neighboring classes are similar they are ordered, as for regression
    beyond: float = 0.01,  # outside of 0 to 1, for a binary loss: more than rounding; our choice
    negative: float = 1e-3,  # below 0, for a softmax: more than rounding; our choice
) -> Iterator[Finding]:
    """The loss does not match the targets.

    nbdebug identifies the loss by its gradient and compares it with the targets: class indices, one label per row or
    several, values between 0 and 1, real numbers.

    Why it matters: a loss for another task may run without an error and even fall. Cross-entropy over a single logit is
    always 0; a squared error on class indices treats 3 as lying between 2 and 4; a softmax cannot predict two labels at
    once.

    What to try: cross-entropy for one of several classes, binary cross-entropy with logits for binary and multi-label
    targets, a squared or absolute error for regression.
    """
    limits = _Limits(many_hot, fewest_classes, most_classes, evenness, order_p, beyond, negative)
    for head in response.heads:
        if head.family == "constant":
            yield _constant(response, head)
            continue
        said = _judge(head, limits)
        if said is not None:
            says, severity, remedy = said
            found = _found(response, head, says, severity, remedy)
            stands = head.family == "logistic" and _is_class_index(head) and not response.assumed
            yield replace(found, is_contradiction=True, explains=UNBOUNDED) if stands else found
    if not any(head.target is not None or head.family == "constant" for head in response.heads):
        raise NotApplicable("no output is compared with a target")


Said = tuple[str, Severity, Remedy]


class _Limits(NamedTuple):
    """The thresholds of the check."""

    many_hot: float
    fewest: int
    most: int
    evenness: float
    order_p: float
    beyond: float
    negative: float


def _judge(head: HeadResponse, limits: _Limits) -> Said | None:
    target = head.target
    if target is None:
        return None
    same = target.shape == head.shape
    if head.family == "softmax" and same:
        return _softmax_of(target, limits)
    low, high = head.wanted_low, head.wanted_high
    if head.family in ("logistic", "probabilities") and low is not None and high is not None and _as_many(head):
        if low >= -limits.beyond and high <= 1 + limits.beyond:
            return _binary_of(head, target)
        says = f"is a binary loss, but the targets range from {target.low:.3g} to {target.high:.3g}"
        return says, "bug", CROSS_ENTROPY if target.integral else SQUARED
    if head.family in ("squared", "distance") and _as_many(head):
        return _distance_of(head, target, limits)
    return None


def _is_class_index(head: HeadResponse) -> bool:
    """Whether the targets are whole numbers from 0 on, beyond 1: for a binary loss these have no best output."""
    target = head.target
    return target is not None and _as_many(head) and target.integral and target.low >= 0 and target.high >= 2


def _binary_of(head: HeadResponse, target: TargetKind) -> Said | None:
    if head.family == "logistic" and target.shape == head.shape and target.one_hot == 1 and head.shape[1] > 2:
        return f"scores {head.shape[1]} classes independently, but each sample has exactly one", "note", CROSS_ENTROPY
    return None


def _as_many(head: HeadResponse) -> bool:
    return head.target is not None and _count(head.target.shape) == _count(head.shape)


def _count(shape: tuple[int, ...]) -> int:
    return 1 if not shape else shape[0] * _count(shape[1:])


def _softmax_of(target: TargetKind, limits: _Limits) -> Said | None:
    if target.many_hot > limits.many_hot:
        says = f"expects one class per sample, but {target.many_hot:.0%} of the target rows have no label or several"
        return says, "suspect", BINARY
    if target.low < -limits.negative:
        says = f"expects classes or class probabilities, but the targets are real numbers from {target.low:.3g} to "
        return f"{says}{target.high:.3g}", "bug", SQUARED
    return None


def _distance_of(head: HeadResponse, target: TargetKind, limits: _Limits) -> Said | None:
    if target.one_hot == 1 and not head.over and not head.is_unit_interval:
        return "is a regression loss on one-hot targets; cross-entropy works better", "note", CROSS_ENTROPY
    numbered = target.integral and target.low == 0 and target.high == target.distinct - 1
    if not numbered:
        return None
    if target.distinct == 2 and not head.is_unit_interval:
        return "is a regression loss on 0/1 targets; binary cross-entropy works better", "note", BINARY
    nominal = target.order_p is not None and target.order_p > limits.order_p
    if limits.fewest <= target.distinct <= limits.most and nominal and target.evenness > limits.evenness:
        says = f"is a regression loss on class indices 0 to {target.high:.0f}, but neighboring classes are not similar"
        return says, "suspect", CROSS_ENTROPY
    return None


def _constant(response: LossResponse, head: HeadResponse) -> Finding:
    single = head.shape[-1] == 1 or (len(head.shape) > 1 and head.shape[1] == 1)
    why = ", because the softmax of a single logit is always 1" if single else ""
    says = f"does not depend on the outputs of shape {head.shape}{why}"
    found = _found(response, head, says, "bug", BINARY if single else CROSS_ENTROPY)
    explains = ("loss-ignores-targets", "learning-rate-too-low", "update-ratio-off")
    return replace(found, is_contradiction=not response.assumed, explains=explains)


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
