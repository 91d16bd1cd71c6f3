"""Verdicts on what a loss asks for: weights, mixtures, derivatives, boxes, noise, pairs, densities."""

from __future__ import annotations

from typing import Any

from nbdebug.checks.loss.positive_pairs_repelled import PairForces
from nbdebug.checks.loss.quantiles_reversed import QuantileDerivatives
from nbdebug.evidence.flow_likelihood import FlowLikelihood
from nbdebug.evidence.loss_operands import LossOperands
from nbdebug.evidence.sampled_normal import SampledNormal
from nbdebug.experiments.bootstraps import Bootstrap
from nbdebug.experiments.box_sides import BoxSides
from nbdebug.experiments.drawn_indices import DrawnIndices
from nbdebug.experiments.mixed_derivatives import MixedDerivatives
from nbdebug.experiments.mixed_samples import MixedSamples
from nbdebug.experiments.noise_schedule import NoiseSchedule
from nbdebug.experiments.reduced_weights import ReducedWeights
from nbdebug.experiments.repeated_exponentials import RepeatedExponential
from nbdebug.experiments.target_domains import WrongTargets
from tests.verdicts.table import Table, minimal


def operands(**facts: Any) -> LossOperands:
    """Return the operands of a loss with these contradictions."""
    return LossOperands("compute_loss", 32, **facts)


table = Table("weights-after-reduction")
table.row("none", "silent", operands())
table.row("a mask", "bug", operands(weighed=(ReducedWeights("mul", "cross_entropy", 32, 9, ("mask",), ""),)))


def mixture(**facts: Any) -> LossOperands:
    """Return inputs and targets that are mixed with the same partners."""
    return operands(mixed=MixedSamples(**{"samples": 32, "inputs": 1, "targets": 1, "same_partners": True, **facts}))


table = Table("targets-mixed-differently")
table.row("not mixed", "not applicable", operands())
table.row("other partners", "bug", mixture(same_partners=False))
table.row("shares that cannot be read", "silent", mixture())
table.pair("apart", lambda d: mixture(input_share=0.5 + d, target_share=0.5), {0.06: "bug", 0.04: "silent"})

table = Table("mixed-derivatives-summed")
table.row("none", "silent", operands())
table.pair(
    "share",
    lambda share: operands(derivatives=(MixedDerivatives(2, share, ""),)),
    {0.025: "suspect", 0.015: "silent"},
)


def drawn(highest: int = 9, count: int = 64) -> LossOperands:
    """Return draws up to this row of a table whose row 99 is looked up as well."""
    return operands(drawn=(DrawnIndices(100, count, highest, 99, ""),))


table = Table("indices-drawn-from-part")
table.row("none", "silent", operands())
table.pair("part", drawn, {49: "suspect", 50: "silent"})
table.pair("draws", lambda count: drawn(count=count), {16: "suspect", 15: "silent"})

table = Table("box-format-mismatch")
table.row("none", "silent", operands())
table.pair(
    "share", lambda share: operands(boxes=(BoxSides(1000, int(1000 * share), ("boxes",), ""),)),
    {0.051: "bug", 0.049: "silent"},
)  # fmt: skip


def exponential(below: float | None) -> LossOperands:
    """Return an exponential of a softplus, for counts of which this share is 0."""
    return operands(exponentials=(RepeatedExponential("poisson_nll_loss", "softplus", 0.1, below, ""),))


table = Table("exponential-applied-twice")
table.row("none", "silent", operands())
table.row("an exponential of one", "suspect", exponential(None))
table.pair("below", exponential, {0.06: "bug", 0.04: "silent"})


def schedule(relation: str = "a² + b", levels: int = 9, highest: float = 0.9) -> LossOperands:
    """Return the factors of data and noise."""
    return operands(schedules=(NoiseSchedule(relation, levels, 0.1, highest, 0.75, ""),))


table = Table("noise-schedule-inconsistent")
table.row("none", "silent", operands())
table.row("preserves the variance", "silent", schedule("a² + b²"))
table.row("no square root at the data", "bug", schedule("a + b²"))
table.pair("levels", lambda levels: schedule(levels=levels), {4: "bug", 3: "silent"})
table.pair("spread", lambda width: schedule(highest=0.1 + width), {0.11: "bug", 0.09: "silent"})

table = Table("positive-pairs-repelled")
table.row("all apart, others near", "bug", PairForces("matrix", 4, 4, 4, "matmul"))
table.row("one of them near", "silent", PairForces("matrix", 4, 3, 4, "matmul"))
table.row("nothing is drawn near", "silent", PairForces("matrix", 4, 4, 0, "matmul"))
table.pair("distance", lambda z: PairForces("triplets", 256, distance=z), {6.1: "suspect", 5.9: "silent"})


def flow(slope: float = -1.0, correlation: float = 0.999, is_lowered: bool = False) -> FlowLikelihood:
    """Return a flow whose log determinant has this slope."""
    return FlowLikelihood(slope, correlation, is_lowered, 4, "compute_loss")


table = Table("log-determinant-wrong")
table.row("a right one", "silent", flow(1.0))
table.row("the wrong sign", "bug", flow())
table.pair("correlation", lambda r: flow(correlation=r), {0.985: "bug", 0.975: "silent"})
table.pair("factor", lambda more: flow(1 + more), {0.11: "bug", 0.09: "silent"})


def divergence(**facts: Any) -> SampledNormal:
    """Return a divergence that takes one width for another."""
    given = {"taken": "the variance for the standard deviation", "error": 1e-6, "own_error": 0.5, "place": "loss_fn"}
    return minimal(SampledNormal, **{**given, "is_raised": False, **facts})


table = Table("divergence-of-another-width")
table.row("another width", "bug", divergence())
table.row("a right one", "silent", divergence(taken=""))
table.row("a right one with the wrong sign", "bug", divergence(taken="", is_raised=True))
table.pair("exact", lambda error: divergence(error=error), {0.9e-3: "bug", 1.1e-3: "silent"})
table.pair("apart", lambda error: divergence(own_error=error), {0.021: "bug", 0.019: "silent"})


def bootstrap(continued: float = 0.1, samples: int = 64, has_gradient: bool = False) -> LossOperands:
    """Return a target that keeps this share of the next values."""
    return operands(bootstraps=(Bootstrap(0.9, has_gradient, continued, samples, ("done",)),))


table = Table("bootstrapped-target-wrong")
table.row("none", "silent", operands())
table.row("a target with a gradient", "suspect", bootstrap(0.9, has_gradient=True))
table.row("no mask", "silent", bootstrap(float("nan")))
table.pair("continued", bootstrap, {0.34: "suspect", 0.36: "silent"})
table.pair("samples", lambda count: bootstrap(samples=count), {16: "suspect", 15: "silent"})

table = Table("targets-outside-loss-domain")
table.row("none", "silent", operands())
table.row("several labels", "bug", operands(wrong_targets=(WrongTargets("binary", "exclusive", 0.5, 32, (), ""),)))
table.pair(
    "share",
    lambda share: operands(wrong_targets=(WrongTargets("soft_margin_loss", "signs", share, 32, ("y",), ""),)),
    {0.11: "bug", 0.09: "silent"},
)


table = Table("quantiles-reversed")
table.row("no levels", "silent", QuantileDerivatives((0.9, 0.1), (), "loss_fn"))
table.row("as written", "silent", QuantileDerivatives((0.1, 0.9), (0.1, 0.9), "loss_fn"))
table.row("falling on purpose", "silent", QuantileDerivatives((0.9, 0.2), (0.9, 0.2), "loss_fn"))
table.pair(
    "near", lambda d: QuantileDerivatives((0.9, 0.1), (0.1 + d, 0.9), "loss_fn"), {0.019: "bug", 0.021: "silent"}
)
