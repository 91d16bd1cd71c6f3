"""Verdicts about short trainings: on one batch, at several rates, and through the loader."""

from __future__ import annotations

import math
from typing import Any

from nbdebug.checks.optimization.model_ignores_inputs import BlindRun
from nbdebug.evidence.learning_gate import LearningGate
from nbdebug.evidence.learning_rate_trials import RateTrials
from nbdebug.evidence.overfit_one_batch import Overfit
from nbdebug.evidence.short_run import Pace, ShortRun, UpdateRatios
from nbdebug.experiments.learning_curve import Curve, Fit
from tests.verdicts.table import Table, minimal


def curve(last: float = 0.1, outcome: str = "falling", rate: float = 0.1, fit: Fit | None = None) -> Curve:
    """Return a training from a loss of 1 to its last one."""
    return Curve((1.0, *(last,) * 9), outcome, rate, fit)


def overfit(outcome: str, pair: Curve | None = None) -> Overfit:
    """Return a training on one batch that went so, and one on two samples."""
    return minimal(Overfit, curve=curve(outcome=outcome), batch_size=16, pair=pair)


table = Table("cannot-overfit-batch")
table.row("learned", "silent", overfit("memorized"))
table.row("still falling", "silent", overfit("falling"))
table.row("a plateau", "bug", overfit("plateaus"))
table.row("a plateau, but not with two samples", "note", overfit("plateaus", curve(outcome="memorized")))
table.row("not finite", "bug", overfit("not-finite"))


def trials(own: Curve, other: Curve, update_ratio: float = 1e-3, assumed: bool = False) -> RateTrials:
    """Return trainings at the rate in use, 0.1, and at another."""
    return RateTrials(0.1, assumed, (own, other), update_ratio, 10)


LOWER = curve(0.5, rate=0.01)
table = Table("learning-rate-too-high")
table.row("as good", "silent", trials(curve(0.5), LOWER))
table.row("not finite", "bug", trials(curve(math.nan, "not-finite"), LOWER))
table.row("not finite with an assumed optimizer", "suspect", trials(curve(math.nan, "not-finite"), LOWER, assumed=True))
table.row("learned", "silent", trials(curve(0.9, "memorized"), LOWER))
table.pair("better", lambda last: trials(curve(last, "oscillates"), LOWER), {0.76: "bug", 0.74: "silent"})

HIGHER = curve(0.5, rate=1.0)
table = Table("learning-rate-too-low")
table.row("no weight matrix", "not applicable", trials(curve(0.99), HIGHER, math.nan))
table.row("no higher rate learns", "silent", trials(curve(0.99), curve(1.0, "plateaus", 1.0), 1e-6))
table.pair("moves", lambda ratio: trials(curve(0.99), HIGHER, ratio), {0.9e-5: "suspect", 1.1e-5: "silent"})
table.pair("gain", lambda last: trials(curve(last), HIGHER, 1e-6), {0.91: "suspect", 0.89: "silent"})


def pace(loading: float, training: float = 0.01, **facts: Any) -> Pace:
    """Return the seconds that a batch takes to load and to train on."""
    return Pace(loading, training, **facts)


table = Table("loading-bottleneck")
table.row("quick to load", "silent", pace(0.001))
table.row("many workers", "silent", pace(0.5, 0.1, workers=8))
table.pair("share", lambda loading: pace(loading, 0.1), {0.41: "suspect", 0.39: "silent"})
table.pair("seconds", pace, {0.11: "suspect", 0.09: "silent"})
table.pair("noticed", lambda loading: pace(loading, 0.001, place="your loop"), {0.021: "note", 0.019: "silent"})


def run(after: float, before: float = 0.5, loss_after: float = 0.1, **facts: Any) -> ShortRun:
    """Return a training from a loss of 1, and its quality on 400 samples, where chance is 0.5."""
    measure = facts.pop("measure", "accuracy")
    fits = {"fit_before": Fit(measure, before, 0.5), "fit_after": Fit(measure, after, 0.5)}
    return minimal(ShortRun, loss_before=1.0, loss_after=loss_after, losses=(1.0,), fitted=400, **{**fits, **facts})


table = Table("loss-metric-disagree")
table.row("no metric", "not applicable", run(0.0, fit_before=None))
table.row("both better", "silent", run(0.9))
table.row("worse by a custom loss", "note", run(0.2, by_hand=True))
table.pair("fell", lambda fell: run(0.2, loss_after=1 - fell), {0.21: "suspect", 0.19: "silent"})
table.pair("sigmas", run, {0.39: "suspect", 0.41: "silent"})
table.pair("explained", lambda after: run(after, measure="explained variance"), {0.29: "suspect", 0.31: "silent"})

table = Table("worse-than-baseline")
table.row("no metric", "not applicable", run(0.5, fit_after=None))
table.row("not settled", "not applicable", run(0.5))
table.row("far better", "silent", run(0.9, settled=True))
table.pair("margin", lambda after: run(after, settled=True), {0.5: "suspect", 0.505: "silent"})


def blind(sighted: Curve, unsighted: Curve, **facts: Any) -> BlindRun:
    """Return a training with the samples' inputs, and one with the same inputs for all."""
    return BlindRun(unsighted, sighted, 16, **facts)


def steps(at_three_quarters: float) -> Curve:
    """Return a training from 1 to 0 that is so far after three quarters of its steps."""
    return Curve((1.0, *(0.5,) * 14, at_three_quarters, *(0.0,) * 4), "falling", 0.1)


table = Table("model-ignores-inputs")
table.row("nothing learned without inputs", "silent", blind(curve(0.1), curve(1.0)))
table.row("conditional on the labels", "silent", blind(curve(0.1), curve(0.1), told=True))
table.row("as good without inputs", "suspect", blind(curve(0.1), curve(0.1)))
table.row("worse with swapped inputs", "silent", blind(curve(0.1), curve(0.1), swapped=0.5))
table.pair("fell", lambda fell: blind(curve(1 - fell), curve(1 - fell)), {0.011: "suspect", 0.009: "silent"})
table.pair("close", lambda last: blind(curve(0.0), curve(last)), {0.04: "suspect", 0.06: "silent"})
table.pair(
    "predicts",
    lambda share: blind(curve(0.1, fit=Fit("accuracy", share, 0.0)), curve(0.1)),
    {0.19: "suspect", 0.21: "silent"},
)
table.pair(
    "perfect",
    lambda chance: blind(curve(0.1), curve(1.0, fit=Fit("explained variance", 0.96, chance))),
    {0.9: "suspect", 0.93: "silent"},
)
table.pair("late", lambda loss: blind(steps(loss), steps(loss)), {0.09: "suspect", 0.11: "silent"})


def ratios(ratio: float, loss_after: float = 1.0) -> UpdateRatios:
    """Return one weight matrix that changes by so much in a step, from a loss of 1."""
    return UpdateRatios((("0.weight", ratio),), 1.0, loss_after)


table = Table("update-ratio-off")
table.row("no weight matrix", "not applicable", UpdateRatios((), 1.0, 1.0))
table.row("as usual", "silent", ratios(1e-3))
table.pair("too_large", ratios, {0.31: "suspect", 0.29: "silent"})
table.pair("too_small", ratios, {0.9e-6: "note", 1.1e-6: "silent"})
table.pair("learned", lambda loss: ratios(0.5, loss), {0.91: "suspect", 0.89: "silent"})


def gate(verdict: str, **facts: Any) -> LearningGate:
    """Return the user's own training beside a reference, as the gate has judged it."""
    return minimal(LearningGate, **{"verdict": verdict, "measure": "accuracy", "losses": (1.0, 0.5), **facts})


table = Table("training-fails")
table.row("learns", "silent", gate("learns"))
table.row("slow", "silent", gate("slow"))
table.row("fails", "suspect", gate("fails"))
table.row("fails without a metric", "suspect", gate("fails", measure="held-out loss"))
table.row("not finite", "suspect", gate("fails", is_finite=False, losses=(1.0, math.nan)))

table = Table("training-slow")
table.row("learns", "silent", gate("learns"))
table.row("slow", "note", gate("slow"))
table.row("fails", "silent", gate("fails"))
