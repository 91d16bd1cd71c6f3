"""Verdicts about what the loss expects and what the last layer outputs."""

from __future__ import annotations

import math
from typing import Any

from nbdebug.evidence.aligned_loss import AlignedLoss
from nbdebug.evidence.flow_likelihood import FlowLikelihood
from nbdebug.evidence.loss_operands import LossOperands
from nbdebug.evidence.loss_response import HeadResponse, LossResponse
from nbdebug.experiments.divergences import Divergence
from nbdebug.experiments.targets import TargetKind
from tests.verdicts.table import Table, minimal

SQUASHED = {"low": 0.0, "high": 1.0}
FREE = {"low": -math.inf, "high": math.inf}
LABELS = minimal(TargetKind, shape=(64,), distinct=10, high=9.0)


def loss(family: str, assumed: bool = False, **facts: Any) -> LossResponse:
    """Return a loss of one family and one output with these facts."""
    known = {"shape": (64, 10), "classes": 10, "class_dim": 1, "place": "head", "family": family}
    return minimal(
        LossResponse,
        loss_name="Loss",
        assumed=assumed,
        place="loss_fn",
        heads=(minimal(HeadResponse, **{**known, **facts}),),
    )


def limited(family: str, shortfall: float, **facts: Any) -> LossResponse:
    """Return a loss of which the bounds of the output keep this part from being learned."""
    return loss(family, floor=0.0, chance=1.0, reachable=shortfall, **facts)


REGRESSION = {"wanted_low": -1.0, "wanted_high": 1.0, **SQUASHED}
RELU = {"low": 0.0, "high": math.inf}
table = Table("clamped-output")
table.row("a loss of another kind", "not applicable", loss("linear"))
table.row("logits without bounds", "silent", loss("softmax", **FREE))
table.row("a sigmoid before cross-entropy", "bug", limited("softmax", 0.5, **SQUASHED))
table.row("a sigmoid before an assumed cross-entropy", "suspect", limited("softmax", 0.5, assumed=True, **SQUASHED))
table.pair(
    "unreachable", lambda share: loss("squared", unreachable=share, **REGRESSION), {0.021: "suspect", 0.019: "silent"}
)
table.pair("surely", lambda share: loss("squared", unreachable=share, **REGRESSION), {0.041: "bug", 0.039: "suspect"})
table.pair("shortfall", lambda share: limited("softmax", share, **SQUASHED), {0.11: "bug", 0.09: "silent"})
table.pair(
    "clipped", lambda share: loss("softmax", clipped=share, one_sided=1.0, **RELU), {0.11: "suspect", 0.09: "silent"}
)
table.pair(
    "one_sided", lambda share: loss("softmax", clipped=0.5, one_sided=share, **RELU), {0.91: "suspect", 0.89: "silent"}
)

table = Table("logits-into-bce")
table.row("a loss of logits", "not applicable", loss("logistic", **FREE))
table.row("probabilities", "silent", loss("probabilities", seen_high=1.0, **SQUASHED))
table.row("nothing keeps them in 0 to 1", "suspect", loss("probabilities", seen_high=1.0, low=-9.0, high=9.0))
table.pair("slack", lambda low: loss("probabilities", seen_low=-low, **SQUASHED), {1.1e-6: "bug", 0.9e-6: "silent"})


def aligned(more: float, is_data: bool = True) -> AlignedLoss:
    """Return a loss of the targets that is so much higher than that of the same values in other orders."""
    return AlignedLoss(1 + more, 0.5, 1.0, 8, is_data, "loss_fn")


table = Table("loss-sign-flipped")
table.row("no direction", "not applicable", loss("softmax"), None, None)
table.row("toward the targets", "silent", loss("softmax", toward=1.0, target=LABELS, is_compared=True), None, None)
table.row("away, as assumed", "suspect", loss("softmax", True, toward=0.0, target=LABELS, is_compared=True), None, None)
table.row("away from what a network says", "suspect", None, None, aligned(0.5, is_data=False))
table.pair(
    "toward",
    lambda share: (loss("softmax", toward=share, target=LABELS, is_compared=True), None, None),
    {0.04: "bug", 0.06: "silent"},
)
table.pair(
    "likelihood",
    lambda r: (None, FlowLikelihood(1.0, r, True, 4, "compute_loss"), None),
    {0.985: "bug", 0.975: "not applicable"},
)
table.pair("gap", lambda more: (None, None, aligned(more)), {1.05e-3: "bug", 0.95e-3: "silent"})

table = Table("probabilities-into-nll")
table.row("a loss of logits", "not applicable", loss("softmax"), None)
table.row("log-probabilities", "silent", loss("linear", is_compared=True, scale="log-probabilities"), None)
table.row("values that are never positive", "suspect", loss("linear", is_compared=True, low=-1.0), None)
table.pair(
    "offset",
    lambda offset: (loss("linear", is_compared=True, scale="probabilities", offset=offset, **SQUASHED), None),
    {0.009: "bug", 0.011: "silent"},
)
DIVERGENCE = minimal(Divergence, argument="input", kind="probabilities", high=1.0)
table.row("probabilities in a divergence", "bug", None, LossOperands("compute_loss", divergences=(DIVERGENCE,)))

table = Table("sigmoid-before-bce-with-logits")
table.row("a loss of probabilities", "not applicable", loss("probabilities", **SQUASHED))
table.row("logits", "silent", limited("logistic", 0.5, **FREE))
table.row("a sigmoid twice in the loss", "bug", loss("sigmoid-twice"))
table.pair("shortfall", lambda share: limited("logistic", share, **SQUASHED), {0.11: "bug", 0.09: "silent"})

SOFTMAX = {"scale": "probabilities", "over": (1,), "loss_dim": 1}
table = Table("softmax-before-cross-entropy")
table.row("another loss", "not applicable", loss("squared"))
table.row("logits", "silent", limited("softmax", 0.5, loss_dim=1))
table.row("a softmax twice in the loss", "bug", loss("softmax-twice"))
table.row("score differences", "suspect", limited("differences", 0.5, **SOFTMAX))
table.pair("shortfall", lambda share: limited("softmax", share, **SOFTMAX), {0.11: "bug", 0.09: "silent"})

table = Table("softmax-over-wrong-dim")
table.row("over the classes", "silent", loss("softmax", over=(1,), loss_dim=1))
table.row("over the batch", "bug", loss("linear", over=(0,)))
table.row("over the batch, without classes", "suspect", loss("squared", over=(0,), classes=1, class_dim=None))
table.row("by the loss", "bug", loss("softmax", loss_dim=0))
table.row("by a loss of similarities", "silent", loss("softmax", loss_dim=0, shape=(10, 10)))
table.row("inside the model", "bug", minimal(LossResponse, loss_name="Loss", over_samples=(("attention", "Softmax"),)))

BINARY = {"shape": (64, 1), "wanted_low": 0.0}
ONE_HOT = minimal(TargetKind, shape=(64, 10), distinct=2, high=1.0, integral=True, one_hot=1.0)


def indices(**facts: Any) -> LossResponse:
    """Return a regression loss on class indices."""
    known = {"integral": True, "evenness": 0.9, "order_p": 0.5, "distinct": 10, "shape": (64, 1)}
    known |= {"high": float(facts.get("distinct", 10) - 1), **facts}
    return loss("squared", shape=(64, 1), target=minimal(TargetKind, **known), **FREE)


table = Table("wrong-loss-for-task")
table.row("no target", "not applicable", loss("squared"))
table.row("cross-entropy on class indices", "silent", loss("softmax", target=LABELS))
table.row("a loss that is constant", "bug", loss("constant", shape=(64, 1)))
table.row(
    "a binary loss on larger numbers",
    "bug",
    loss("logistic", wanted_high=9.0, target=LABELS, shape=(64,), wanted_low=0.0),
)
table.row(
    "a binary loss on 0 and 1", "silent", loss("logistic", wanted_high=1.0, target=LABELS, shape=(64,), wanted_low=0.0)
)
table.row("a softmax on negative targets", "bug", loss("softmax", target=minimal(TargetKind, shape=(64, 10), low=-1.0)))
table.row("a binary loss on one-hot rows", "note", loss("logistic", target=ONE_HOT, wanted_low=0.0, wanted_high=1.0))
table.row("a regression loss on one-hot rows", "note", loss("squared", target=ONE_HOT, **FREE))
table.row("a regression loss on 0 and 1", "note", indices(distinct=2))
table.pair(
    "many_hot",
    lambda share: loss("softmax", target=minimal(TargetKind, shape=(64, 10), many_hot=share)),
    {0.11: "suspect", 0.09: "silent"},
)
table.pair("most_classes", lambda count: indices(distinct=count), {20: "suspect", 21: "silent"})
table.pair("fewest_classes", lambda count: indices(distinct=count), {4: "suspect", 3: "silent"})
table.pair("evenness", lambda share: indices(evenness=share), {0.31: "suspect", 0.29: "silent"})
table.pair("order_p", lambda p: indices(order_p=p), {0.051: "suspect", 0.049: "silent"})
table.pair(
    "beyond",
    lambda over: loss("logistic", target=LABELS, shape=(64,), wanted_low=0.0, wanted_high=1 + over),
    {0.011: "bug", 0.009: "silent"},
)
table.pair(
    "negative",
    lambda below: loss("softmax", target=minimal(TargetKind, shape=(64, 10), low=-below)),
    {1.1e-3: "bug", 0.9e-3: "silent"},
)
