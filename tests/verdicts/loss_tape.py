"""Verdicts on what the recorded run of a loss shows: its terms, targets, class weights and minimum."""

from __future__ import annotations

from typing import Any

from nbdebug.checks.loss.loss_depends_on_order import ReorderedLoss
from nbdebug.checks.loss.loss_mask_inverted import CountedTargets
from nbdebug.checks.loss.loss_terms_reduced_differently import TermScaling, TermScalings
from nbdebug.checks.loss.loss_unbounded_below import LossRay
from nbdebug.checks.loss.representation_collapse import CollapseFacts
from nbdebug.checks.loss.targets_drawn_at_random import TargetOrigin
from nbdebug.evidence.loss_operands import LossOperands
from nbdebug.evidence.repeated_reads import Rereading
from nbdebug.experiments.constant_terms import ConstantTerm
from nbdebug.experiments.index_masks import IndexMask
from nbdebug.experiments.normalized_axes import NormalizedAxis
from tests.verdicts.table import Table, minimal


def ray(growth: float, first: float = 1.0) -> LossRay:
    """Return a loss whose fall grows by this factor for each tenfold distance."""
    return LossRay(0.0, (-first, -first * growth, -first * growth**2), "label", "loss_fn")


table = Table("loss-unbounded-below")
table.row("a linear loss", "suspect", ray(10.0))
table.row("a loss that rises", "silent", ray(10.0, first=-1.0))
table.row("a loss that overflows", "silent", ray(float("inf")))
table.pair("growth", ray, {5.5: "suspect", 4.5: "silent"})


def terms(growth: float = 2.0, factor: float = 1.0, share: float = 0.5) -> TermScalings:
    """Return a mean and a term with this growth, factor and share of the loss."""
    one, two = TermScaling("mse_loss (1)", 1 - share, 1.0, 1.0), TermScaling("sum (2)", share, factor, growth)
    return TermScalings((one, two), 32)


table = Table("loss-terms-reduced-differently")
table.row("a single term", "not applicable", TermScalings((TermScaling("mse_loss (1)", 1.0, 1.0, 1.0),), 32))
table.row("two means", "silent", terms(growth=1.0))
table.row("a sum and a mean", "suspect", terms())
table.pair("tolerance", terms, {2.04: "suspect", 2.06: "silent"})
table.pair("weight", lambda factor: terms(factor=factor), {0.11: "suspect", 0.09: "note"})
table.pair("share", lambda share: terms(share=share), {0.055: "suspect", 0.045: "silent"})


def origin(variation: float = 1.25, name: str = "mse_loss", **facts: Any) -> TargetOrigin:
    """Return a target of random draws."""
    known = {"is_drawn": True, "is_seen": False, "is_sorted": False, "place": "loss_fn", **facts}
    return minimal(TargetOrigin, loss_name=name, variation=variation, **known)


def reread(alone: int, *, is_apart: bool = True) -> tuple[TargetOrigin, Rereading]:
    """Return so many of a hundred samples that have another target for the same input."""
    return origin(is_drawn=False, is_apart=is_apart), minimal(Rereading, read=100, target_alone=alone)


table = Table("targets-drawn-at-random")
table.row("noise", "bug", origin(), None)
table.row("noise, compared by hand", "suspect", origin(name="sub"), None)
table.row("noise that was added to the input", "silent", origin(is_seen=True), None)
table.row("data", "silent", origin(is_drawn=False), None)
table.row("distributions", "silent", origin(is_sorted=True), None)
table.row("noise of the batch, which the model reads", "silent", *reread(100, is_apart=False))
table.pair("variation", lambda size: (origin(size), None), {0.55: "bug", 0.45: "silent"})
table.pair("added", lambda noise: (origin(is_drawn=False, added=noise), None), {0.11: "suspect", 0.09: "silent"})
table.pair("alone", lambda share: reread(round(100 * share)), {0.26: "suspect", 0.24: "silent"})


def reordered(change: float) -> ReorderedLoss:
    """Return a loss that changes so much when samples are reordered."""
    return ReorderedLoss(2.0, (2.0, 2.0 * (1 + change)), 32, "loss_fn")


table = Table("loss-depends-on-order")
table.row("the same in any order", "silent", reordered(0.0))
table.row("labels of neighbors", "suspect", reordered(0.5))
table.pair(
    "walked", lambda part: ReorderedLoss(2.0, (2.0,), 32, "loss_fn", part), {5.2e-5: "suspect", 4.8e-5: "silent"}
)
table.pair("change", reordered, {0.022: "suspect", 0.018: "silent"})


def collapse(**facts: Any) -> CollapseFacts:
    """Return a loss that one row for all brings from 1 to 0, and no other rows lower."""
    given = {"random": 1.0, "noise": 0.1, "collapsed": 0.0, "lowest": 0.0, "scaled": 20.0, "heads": ("head",), **facts}
    return minimal(CollapseFacts, **given)


table = Table("representation-collapse")
table.row("one row is best", "suspect", collapse())
table.row("apart with large outputs", "silent", collapse(scaled=1.0))
table.pair("noises", lambda times: collapse(noise=1 / times), {4.1: "suspect", 3.9: "silent"})
table.pair("gained", lambda share: collapse(lowest=-share), {0.009: "suspect", 0.011: "silent"})

WRONG_AXIS = NormalizedAxis((32, 16), 0, "matmul", "")
table = Table("normalize-over-wrong-dim")
table.row("nothing is normalized", "not applicable", LossOperands("loss_fn"))
table.row("the dimension that is summed over", "silent", LossOperands("loss_fn", compared=2))
table.row("another one", "suspect", LossOperands("loss_fn", compared=1, normalized=(WRONG_AXIS,)))

table = Table("mask-used-as-index")
table.row("no such index", "silent", LossOperands("loss_fn"))
table.row("zeros and ones", "bug", LossOperands("loss_fn", indexed=(IndexMask("__getitem__", 32, 9, ("event",), ""),)))

table = Table("loss-term-without-gradient")
table.row("every term has one", "silent", LossOperands("compute_loss"))
table.row("one has none", "suspect", LossOperands("compute_loss", constant=(ConstantTerm("kl_div", 2, ""),)))


def counted(**facts: Any) -> CountedTargets:
    """Return a loss that counts padding alone."""
    given = {"counted": 40, "is_one_value": True, "others": 8, **facts}
    return minimal(CountedTargets, **given)


table = Table("loss-mask-inverted")
table.row("padding alone", "bug", counted())
table.row("several values", "silent", counted(is_one_value=False))
table.pair("counted", lambda count: counted(counted=count), {8: "bug", 7: "silent"})
table.pair("others", lambda count: counted(others=count), {3: "bug", 2: "silent"})
