"""Verdicts about the signal and the gradient through the layers, their units, and the weights they start with."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from nbdebug.checks.loss.bottleneck_too_narrow import InformationCuts, NarrowCut
from nbdebug.checks.loss.excessive_dropout import DropoutShares, DroppedShare
from nbdebug.checks.loss.initialization_off_scale import RescaledStart
from nbdebug.checks.loss.missing_nonlinearity import Linearity, LinearPair
from nbdebug.checks.loss.symmetric_initialization import StepSymmetry, SymmetricLayer
from nbdebug.evidence.gradient_flow import GradientFlow, LayerFlow, TimeFlow, Trend
from nbdebug.evidence.initial_weights import InitialWeights, WeightFacts
from nbdebug.evidence.unit_activity import UnitActivity, UnitFacts
from tests.verdicts.table import Table, minimal

LAYERS = tuple(LayerFlow(str(index), 1.0, 1.0, 1.0, 1e-2) for index in range(6))
EVEN = Trend(ratio=1.0, factor=1.0, order=0.0, layers=5, largest=0.3)
VANISHED = Trend(ratio=1e-7, factor=0.04, order=-1.0, layers=5, largest=0.3)
EXPLODED = Trend(ratio=1e5, factor=10.0, order=1.0, layers=5, largest=0.3)


def signal(trend: Trend | None, **changes: Any) -> GradientFlow:
    """Return a flow whose activations follow this trend."""
    return minimal(GradientFlow, layers=LAYERS, signal=replace(trend, **changes) if trend else None)


table = Table("activations-off-scale")
table.row("no hidden layers", "not applicable", signal(None))
table.row("one size in all layers", "silent", signal(EVEN))
table.pair("shrinks", lambda ratio: signal(VANISHED, ratio=ratio), {0.9e-5: "suspect", 1.1e-5: "silent"})
table.pair("grows", lambda ratio: signal(EXPLODED, ratio=ratio), {1100.0: "suspect", 900.0: "silent"})
table.pair("factor", lambda factor: signal(EXPLODED, factor=factor), {1.6: "suspect", 1.4: "silent"})
table.pair("order", lambda order: signal(VANISHED, order=-order), {0.85: "suspect", 0.75: "silent"})
table.pair("largest", lambda largest: signal(VANISHED, largest=largest), {0.55: "suspect", 0.65: "silent"})
table.pair("layers", lambda layers: signal(VANISHED, layers=layers), {4: "suspect", 3: "not applicable"})


def gradient(
    trend: Trend | None, time: float | None = None, first_update: float = 1e-2, **changes: Any
) -> GradientFlow:
    """Return a flow whose gradients follow this trend over depth, and grow by this factor in time."""
    return minimal(
        GradientFlow,
        layers=(replace(LAYERS[0], update=first_update), *LAYERS[1:]),
        gradient=replace(trend, **changes) if trend else None,
        time=() if time is None else (TimeFlow("rnn", 50, time),),
    )


table = Table("exploding-gradients")
table.row("one layer", "not applicable", gradient(None))
table.row("one recurrent layer", "silent", gradient(None, time=1.0))
table.row("one size in all layers", "silent", gradient(EVEN))
table.pair("ratio", lambda ratio: gradient(EXPLODED, ratio=ratio), {1100.0: "bug", 900.0: "silent"})
table.pair("factor", lambda factor: gradient(EXPLODED, factor=factor), {1.6: "bug", 1.4: "silent"})
table.pair("order", lambda order: gradient(EXPLODED, order=order), {0.85: "bug", 0.75: "silent"})
table.pair("largest", lambda largest: gradient(EXPLODED, largest=largest), {0.55: "bug", 0.65: "silent"})
table.pair("in_time", lambda time: gradient(None, time=time), {1.1e4: "bug", 0.9e4: "silent"})
table.pair("layers", lambda layers: gradient(EXPLODED, layers=layers), {4: "bug", 3: "not applicable"})

table = Table("vanishing-gradients")
table.row("one layer", "not applicable", gradient(None))
table.row("one size in all layers", "silent", gradient(EVEN))
table.pair("ratio", lambda ratio: gradient(VANISHED, ratio=ratio), {0.9e-5: "bug", 1.1e-5: "silent"})
table.pair(
    "with_updates",
    lambda ratio: gradient(VANISHED, ratio=ratio, first_update=1e-6),
    {0.9e-3: "suspect", 1.1e-3: "silent"},
)
table.pair("factor", lambda factor: gradient(VANISHED, factor=factor), {0.55: "bug", 0.65: "silent"})
table.pair("order", lambda order: gradient(VANISHED, order=-order), {0.85: "bug", 0.75: "silent"})
table.pair("largest", lambda largest: gradient(VANISHED, largest=largest), {0.55: "bug", 0.65: "silent"})
table.pair("layers", lambda layers: gradient(VANISHED, layers=layers), {4: "bug", 3: "not applicable"})


def units(count: int = 100, samples: int = 64, learns: bool = False, **facts: Any) -> UnitActivity:
    """Return the activity of one layer."""
    layer = minimal(UnitFacts, path="1", units=count, **facts)
    return minimal(UnitActivity, layers=(layer,), samples=samples, learns=learns)


table = Table("dead-units")
table.row("all units fire", "silent", units(dead=0))
table.row("a layer of zeros", "bug", units(dead=100))
table.row("most of a layer that learns", "note", units(dead=80, learns=True))
table.pair("share", lambda dead: units(count=10_000, dead=dead), {7600: "suspect", 7400: "silent"}, share=0.75)
table.pair("surprise", lambda dead: units(dead=dead), {66: "suspect", 64: "silent"})
table.pair("least_samples", lambda samples: units(dead=100, samples=samples), {64: "bug", 63: "silent"})
table.pair("nearly_all", lambda dead: units(dead=dead), {91: "bug", 89: "suspect"})

table = Table("saturated-units")
table.row("no bounded activation", "not applicable", units())
table.row("none is saturated", "silent", units(bounded=True))
table.pair("share", lambda count: units(bounded=True, saturated=count), {51: "suspect", 49: "silent"})
table.pair("least_units", lambda count: units(count, bounded=True, saturated=count), {4: "bug", 3: "silent"})
table.pair("nearly_all", lambda count: units(bounded=True, saturated=count), {81: "bug", 79: "suspect"})


def dropout(share: float, error: float = 0.001, is_source: bool = True) -> DropoutShares:
    """Return one place that drops this share of its values."""
    return DropoutShares((DroppedShare("drop", share, error, is_source),))


table = Table("excessive-dropout")
table.row("nothing dropped", "silent", DropoutShares(()))
table.row("half dropped", "silent", dropout(0.5))
table.row("dropped before", "silent", dropout(0.95, is_source=False))
table.pair("share", dropout, {0.79: "suspect", 0.77: "silent"})
table.pair("nearly_all", dropout, {0.94: "bug", 0.92: "suspect"})
table.pair("sigmas", lambda error: dropout(0.8, error), {0.016: "suspect", 0.018: "silent"})
table.pair("slack", lambda error: dropout(0.78, error), {0.009: "suspect", 0.011: "silent"})


def bottleneck(quality: float | None = 0.5, width: int = 2, needed: float = 3.3, task: str = "classification") -> Any:
    """Return one narrow layer, and how well a batch is learned through it."""
    return InformationCuts((NarrowCut("neck", width, needed, "10 classes"),), task, quality, "accuracy", 64)


table = Table("bottleneck-too-narrow")
table.row("no narrow layer", "silent", InformationCuts((), "classification"))
table.row("an autoencoder", "note", bottleneck(task="reconstruction"))
table.pair("quality", bottleneck, {0.89: "suspect", 0.91: "note"})
table.pair("single", lambda bits: bottleneck(0.95, width=1, needed=bits), {2.1: "suspect", 1.9: "note"})


def affine(width: int, deviation: float = 1e-12) -> Linearity:
    """Return two layers with so many values between them and nothing else."""
    pair = LinearPair("0", "1", width, into=64, out=10)
    return Linearity(deviation, 1e-8, (pair,), (pair,))


table = Table("missing-nonlinearity")
table.row("an affine network", "bug", affine(64))
table.row("an affine network of low rank", "note", affine(9))
table.row("two layers that are one", "note", affine(64, deviation=1.0))
table.row("a low rank within a network", "silent", affine(9, deviation=1.0))


def start(excess: float = 10.0, end: float = 2.0, begin: float = 2.3, fresh: bool = True) -> tuple[Any, Any]:
    """Return weights so many times too large: trained as they are, and from 1.0 to 0.5 with weights to scale."""
    weight = minimal(WeightFacts, path="0", name="weight", std=excess, low=1.0, high=1.0, looks_fresh=fresh)
    return InitialWeights((weight,), fresh, ""), RescaledStart((weight,), (begin, end), (1.0, 0.5))


table = Table("initialization-off-scale")
table.row("a trained model", "not applicable", *start(fresh=False))
table.row("weights to scale", "silent", *start(excess=1.0))
table.row("too small by as much", "bug", *start(excess=0.1))
table.row("made up for in the end", "note", *start(end=0.4, begin=math.inf))
table.pair("excess", start, {3.1: "bug", 2.9: "silent"})
table.pair("gain", lambda end: start(end=end, begin=1.0), {0.71: "bug", 0.69: "silent"})
table.pair("head_start", lambda begin: start(end=0.6, begin=begin), {2.1: "suspect", 1.9: "silent"})


def symmetry(before: int = 1, after: int = 1, count: int = 10, is_zero: bool = False) -> tuple[StepSymmetry, None]:
    """Return one layer with so many distinct units before and after some steps."""
    layer = minimal(
        SymmetricLayer, path="0", units=count, distinct_before=before, distinct_after=after, is_zero=is_zero
    )
    return StepSymmetry((layer,), 5), None


HEAD = InitialWeights((minimal(WeightFacts, path="0", is_head=True),), True, "")
table = Table("symmetric-initialization")
table.row("all units differ", "silent", StepSymmetry((), 5), None)
table.row("zeros that soon differ", "silent", *symmetry(after=10, is_zero=True))
table.row("a last layer that soon differs", "silent", symmetry(after=10)[0], HEAD)
table.row("all units alike", "bug", *symmetry())
table.pair("distinct", lambda after: symmetry(before=4, after=after), {5: "bug", 6: "silent"})
table.pair("grown", lambda after: symmetry(before=20, after=after, count=100), {29: "bug", 31: "silent"})
table.pair("least_units", lambda count: symmetry(after=count, count=count), {4: "suspect", 3: "silent"})
