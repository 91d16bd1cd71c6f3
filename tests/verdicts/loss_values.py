"""Verdicts about the value of the loss, its gradient, its terms, and what weight decay does to it."""

from __future__ import annotations

import math
from typing import Any

from nbdebug.checks.loss.excessive_weight_decay import DecayRace
from nbdebug.checks.loss.loss_not_differentiable import LossGradient
from nbdebug.checks.loss.loss_sums_over_batch import BatchScaling
from nbdebug.checks.loss.loss_terms_unbalanced import LossTerm, LossTerms
from nbdebug.evidence.first_pass import FirstPass
from nbdebug.evidence.initial_loss import FirstGuess, InitialLoss
from nbdebug.evidence.initial_weights import InitialWeights
from nbdebug.evidence.target_influence import TargetInfluence, TargetUse
from tests.verdicts.table import Table, minimal


def guess(kind: str = "classification", **facts: Any) -> InitialLoss:
    """Return the first loss of a classifier, at chance level unless the facts say otherwise."""
    known = {"classes": 10, "rows": 1000, "loss": 2.3, "guess": 2.3, "constant": 2.3, "best": (0.0,), **facts}
    return InitialLoss((minimal(FirstGuess, kind=kind, **known),))


table = Table("initial-loss-off")
table.row("all samples alike", "not applicable", guess(constant=0.0))
table.row("at chance level", "silent", guess(untrained=(2.3, 2.4, 2.5)))
table.row("too high, and soon not", "note", guess(loss=30.0, soon=1.0))
table.pair("too_high", lambda times: guess(loss=2.3 * times), {3.1: "suspect", 2.9: "silent"})
table.pair(
    "nats", lambda nats: guess(classes=1000, guess=1.0, loss=1 + nats / math.log(1000)), {6.1: "suspect", 5.9: "silent"}
)
table.pair("too_low", lambda share: guess(untrained=(2.3 * share,) * 3), {0.49: "suspect", 0.51: "silent"})
table.pair("fewest", lambda rows: guess(untrained=(0.1,) * 3, rows=rows), {16: "suspect", 15: "silent"})

table = Table("output-bias-ignores-prior")
table.row("no known loss", "not applicable", InitialLoss(()))
table.row("even classes", "silent", guess())
table.pair(
    "gap", lambda share: guess(guess=1.0, loss=1.0, constant=1 - share, rows=10**6), {0.21: "note", 0.19: "silent"}
)
table.pair("fewest", lambda rows: guess(guess=1.0, loss=1.0, constant=0.1, rows=10 * rows), {5: "note", 4: "silent"})
table.pair(
    "left",
    lambda share: guess(guess=1.0, loss=0.5 + 0.5 * share, constant=0.5, rows=10**6),
    {0.51: "note", 0.49: "silent"},
)


def targets(influence: float, place: str = "loss_fn", **facts: Any) -> TargetInfluence:
    """Return one target that changes the loss by so much."""
    use = TargetUse("batch[1]", (64,), influence, fits_output=True)
    return minimal(TargetInfluence, place=place, uses=(use,), **facts)


table = Table("loss-ignores-targets")
table.row("used", "silent", targets(0.5))
table.row("ignored by a step", "note", targets(0.0, "train_step"))
table.row("ignored, and one answer wanted", "suspect", targets(0.0, "train_step", wants_one_answer=True))
table.pair("influence", targets, {0.9e-7: "bug", 1.1e-7: "silent"})


def gradient(**facts: Any) -> LossGradient:
    """Return a loss that sends a gradient, unless the facts say otherwise."""
    known = {"kind": "Tensor", "numbers": 1, "requires_grad": True, "reaches_output": True, **facts}
    return minimal(LossGradient, **{"output_requires_grad": True, "trainable": 4, **known})


table = Table("loss-not-differentiable")
table.row("a scalar with a gradient", "silent", gradient())
table.row("no tensor", "bug", gradient(kind="str", numbers=0))
table.row("one loss a sample", "bug", gradient(numbers=64))
table.row("an accuracy", "bug", gradient(flat=True))
table.row("a number", "bug", gradient(kind="float", reaches_output=False))
table.row("detached outputs", "bug", gradient(reaches_output=False, output_requires_grad=False, cut="head"))


def scaling(twice: float = 2.0, ends: tuple[float, float] | None = None) -> BatchScaling:
    """Return a loss of 1, and that of twice the batch."""
    return minimal(BatchScaling, batch_size=64, once=1.0, twice=twice, ends=ends)


table = Table("loss-sums-over-batch")
table.row("a mean", "silent", scaling(1.0))
table.pair("growth", scaling, {1.985: "note", 1.975: "silent"})
table.pair("rises", lambda end: scaling(ends=(end, 0.5)), {1.6: "suspect", 1.4: "note"})


def terms(first: float, later: float | None = None) -> LossTerms:
    """Return two terms, of which one has a gradient so many times larger, early and later."""
    large = LossTerm("mse", 1.0, 1.0, first, first if later is None else later)
    return LossTerms((large, LossTerm("kl", 1.0, 1.0, 1.0, 1.0)), 20, "loss_parts")


table = Table("loss-terms-unbalanced")
table.row("of one size", "silent", terms(1.0))
table.row("only at first", "silent", terms(1e5, 1.0))
table.row("without a gradient", "silent", terms(0.0))
table.pair("drowns", terms, {1100.0: "suspect", 900.0: "note"})
table.pair("large", terms, {110.0: "note", 90.0: "silent"})


def decay(
    end: float = 0.5, start: float = 1.0, without: float = 0.5, dominance: float = 0.1, chance: float = 1.0
) -> tuple[Any, ...]:
    """Return trainings with weight decay and without, and what chance level is."""
    race = DecayRace(0.1, 0.1, dominance, (start, end), (start, without))
    return race, InitialWeights((), True, ""), minimal(FirstPass, chance_loss=chance)


table = Table("excessive-weight-decay")
table.row("no decay", "not applicable", minimal(DecayRace), None, None)
table.row("not finite without", "not applicable", *decay(without=math.nan))
table.row("not raced", "silent", minimal(DecayRace, decay=0.1), None, None)
table.row("as good with decay", "silent", *decay())
table.row("a loss of zero", "silent", *decay(0.0, start=0.0, without=0.0))
table.row("not finite with decay", "bug", *decay(math.inf))
table.pair("lost", decay, {0.63: "suspect", 0.62: "silent"})
table.pair("surely", decay, {0.76: "bug", 0.74: "suspect"})
table.pair("dominance", lambda share: decay(without=0.99, dominance=share), {3.1: "suspect", 2.9: "silent"})
table.pair("untrained", lambda chance: decay(0.9, chance=chance), {1.9: "bug", 2.1: "silent"})
table.pair("slow", lambda gained: decay(2.0, without=1 - gained), {0.051: "bug", 0.049: "silent"})
table.pair("rises", lambda end: decay(end, chance=4.0), {1.21: "bug", 1.19: "silent"})
table.pair("partly", lambda end: decay(end, without=0.001, dominance=1.0), {0.102: "suspect", 0.1: "silent"})
table.pair(
    "times",
    lambda left: decay(left + 0.15 * (1 - left), without=left, dominance=1.0),
    {0.06: "suspect", 0.08: "silent"},
)
table.pair("in_step", lambda share: decay(0.15, without=0.01, dominance=share), {0.51: "suspect", 0.49: "silent"})
