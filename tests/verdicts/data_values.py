"""Verdicts about the values of inputs and targets, how they are laid out, and how the labels follow from the inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from nbdebug.checks.data.edges_not_offset import JoinedGraphs
from nbdebug.checks.data.incompatible_target_shape import TargetAlignment
from nbdebug.checks.data.labels_unrelated_to_inputs import OwnRelation
from nbdebug.checks.data.unscaled_targets import TargetReach
from nbdebug.evidence.baselines import Baselines
from nbdebug.evidence.column_drop import ColumnDrop, ColumnDrops
from nbdebug.evidence.column_leak import ColumnLeak
from nbdebug.evidence.first_layer_inputs import FirstLayer, FirstWeights
from nbdebug.evidence.image_layout import ImageLayout
from nbdebug.evidence.loss_operands import LossOperands
from nbdebug.evidence.padding import PaddingTrial
from nbdebug.experiments.accidental_pairs import AccidentalPairs
from tests.verdicts.table import Table, minimal


def layer(size: Any = (1.0, 1.0), response: float = 1.0, **facts: Any) -> FirstWeights:
    """Return a first layer whose features have these magnitudes."""
    known = {"size": np.array(size), "filled": np.array(size), "mean": np.zeros(1), "std": np.zeros(1), "drive": 10.0}
    known |= {"low": -1.0, "high": 1.0, "features": len(size), **facts}
    return FirstWeights((minimal(FirstLayer, path="0", module="Linear", **known),), response, 0.0)


table = Table("feature-scales-differ")
table.row("of one scale", "silent", layer())
table.row("a single feature", "silent", layer([100.0]))
table.pair("ratio", lambda times: layer([50.0, 50.0 / times]), {110.0: "suspect", 90.0: "silent"})
table.pair("large", lambda high: layer([high, high / 1000]), {11.0: "suspect", 9.0: "silent"})
table.pair("far", lambda times: layer([1.0, 1 / times]), {1.1e4: "suspect", 0.9e4: "silent"})

table = Table("unnormalized-inputs")
table.row("normalized", "silent", layer())
table.row("normalized by the model", "silent", layer([100.0, 100.0], response=0.0))
table.row("one large feature", "silent", layer([1.0, 1.0, 100.0]))
table.pair("large", lambda size: layer([size, size]), {16.0: "suspect", 14.0: "silent"})
table.pair("small", lambda size: layer([size, size], low=-0.01, high=0.01), {0.0049: "suspect", 0.0051: "silent"})
table.pair("share", lambda many: layer([100.0] * many + [1.0] * (100 - many)), {26: "suspect", 25: "silent"})
table.pair("drive", lambda drive: layer([100.0, 100.0], drive=drive), {3.1: "suspect", 2.9: "silent"})
table.pair("nowhere", lambda times: layer([1e-3, 1e-3], low=0.0, high=0.005 * times), {9.9: "suspect", 10.1: "silent"})


def images(shape: tuple[int, int, int] = (3, 32, 32), **facts: Any) -> FirstWeights:
    """Return pictures of this shape: channels, height and width as the model reads them."""
    known = {"smooth": (1.0, 1.0, 1.0), "ordered": (1.0, 1.0, 0.0), **facts}
    return layer(layout=ImageLayout(shape, 10, **known))


def reread(gain: float = 0.3, wins: float = 1.0) -> FirstWeights:
    """Return pictures that another reading makes smoother by so much, in so many of them."""
    return images(other="height, width, channels", gain=gain, wins=wins)


def noisy(gain: float = 0.85, wins: float = 1.0, count: int = 64) -> FirstWeights:
    """Return noisy pictures that another reading makes a little smoother along both sides."""
    return layer(layout=ImageLayout((3, 32, 32), count, (1.0, 1.0, 1.0), (0.5, 0.5, 0.5), "last", gain, wins, gain))


def channels_last(height: float = 0.4, width: float = 0.4, shape: tuple[int, int, int] = (32, 32, 3)) -> FirstWeights:
    """Return pictures whose first two axes are so smooth."""
    return images(shape, smooth=(height, width, 1.0))


table = Table("misread-image-layout")
table.row("no convolution", "not applicable", layer())
table.row("channels first", "silent", images(smooth=(1.0, 0.3, 0.3), ordered=(0.5, 1.0, 1.0)))
table.row("one channel, last", "suspect", images((32, 32, 1), smooth=(0.3, 0.3, 1.0)))
table.pair("gain", reread, {0.69: "bug", 0.71: "silent"})
table.pair("wins", lambda wins: reread(wins=wins), {0.91: "bug", 0.89: "silent"})
table.row("noisy, and smoother along one side", "silent", images(other="last", gain=0.85, wins=1.0, sides=1.0))
table.pair("noisy", noisy, {0.91: "bug", 0.93: "silent"})
table.pair("always", lambda wins: noisy(wins=wins), {0.96: "bug", 0.94: "silent"})
table.pair("pictures", lambda count: noisy(count=count), {32: "bug", 31: "silent"})
table.pair("smooth", lambda value: channels_last(value, value), {0.89: "bug", 0.91: "silent"})
table.pair("even", lambda times: channels_last(0.4 * times), {1.9: "bug", 2.1: "silent"})
table.pair("channels", lambda count: channels_last(shape=(32, 32, count)), {4: "bug", 5: "silent"})
table.pair("side", lambda side: channels_last(shape=(side, side, 3)), {8: "bug", 7: "silent"})
table.pair("aspect", lambda times: channels_last(shape=(round(100 * times), 100, 3)), {3.9: "bug", 4.1: "silent"})


def shapes(target: tuple[int, ...] = (64,), **facts: Any) -> tuple[TargetAlignment, None]:
    """Return outputs of shape (64, 1), compared with targets of this one."""
    return minimal(TargetAlignment, output_shape=(64, 1), target_shape=target, **facts), None


table = Table("incompatible-target-shape")
table.row("equal shapes", "silent", *shapes((64, 1), spill=1.0))
table.row("broadcast by an assumed loss", "note", *shapes(spill=1.0, reshape="target[:, None]", assumed=True))
table.row("a warning", "suspect", *shapes(warning="Using a target size that is different"))
table.row("an error", "bug", *shapes(error="ValueError: target size"))
table.pair("spill", lambda spill: shapes(spill=spill, reshape="target[:, None]"), {0.31: "bug", 0.29: "silent"})
PAIRS = LossOperands("train_step", 64, paired=(AccidentalPairs("mul", ((64,), (64, 1)), ""),))
table.row("two columns of the loss", "suspect", None, PAIRS)


def reach(lowest: float, highest: float, mean: float = 0.0, std: float = 1.0) -> TargetReach:
    """Return the best outputs for low and high targets, and what the model gives."""
    return minimal(TargetReach, lowest=lowest, highest=highest, mean=mean, std=std)


table = Table("unscaled-targets")
table.row("near unit scale", "silent", reach(-1.0, 1.0))
table.pair("large", lambda value: reach(value, value), {31.0: "suspect", 29.0: "silent"})
table.pair("margin", lambda mean: reach(100.0, 200.0, mean), {74.0: "suspect", 76.0: "silent"})
table.pair("narrow", lambda share: reach(-100.0, 100.0, std=200 * share), {0.019: "suspect", 0.021: "silent"})
table.pair("small", lambda spread: reach(0.0, spread), {0.9e-3: "suspect", 1.1e-3: "silent"})
table.pair("wide", lambda times: reach(0.0, 1e-4, std=1e-4 * times), {110.0: "suspect", 90.0: "silent"})


def padded(share: float = 0.5, **facts: Any) -> PaddingTrial:
    """Return sequences of which this share is padding."""
    return minimal(PaddingTrial, share=share, **facts)


table = Table("padding-dominates")
table.row("masked", "silent", padded(influence=0.0, in_loss=0.0))
table.row("padding before the data", "note", padded(influence=1.0, at_end=False))
table.pair("share", lambda share: padded(share, influence=1.0), {0.31: "suspect", 0.29: "note"})
table.pair("most", padded, {0.81: "note", 0.79: "silent"})
table.pair("influence", lambda change: padded(influence=change), {0.21: "suspect", 0.19: "silent"})
table.pair("noises", lambda times: padded(influence=0.1 * times, noise=0.1), {3.1: "suspect", 2.9: "silent"})
table.pair("in_loss", lambda part: padded(in_loss=0.5 * part), {0.51: "suspect", 0.49: "silent"})
table.pair("in_loss_least", lambda part: padded(0.01, in_loss=part), {0.051: "note", 0.049: "silent"})


def leak(alone: float = 0.99, others: float | None = 0.5, p: float = 0.0, exact: bool = False) -> ColumnLeak:
    """Return how well one column predicts the target, and all others together."""
    return minimal(ColumnLeak, columns=("x0",), alone=alone, others=others, others_p=p, exact=exact, width=10)


def fallen(held_out: float = 0.1, p: float = 0.0, others: float = 0.4) -> tuple[ColumnLeak, ColumnDrops]:
    """Return a column that predicts training samples, and less of a split, beside others that predict both."""
    drop = ColumnDrop("x0", "val_loader", 0.6, held_out, p, 0.4, others)
    return leak(0.5, None), ColumnDrops((drop,))


table = Table("target-leaks-into-inputs")
table.row("no column goes far", "silent", leak(0.5, None), None)
table.row("a copy of the target", "bug", leak(1.0, 0.99, exact=True), None)
table.pair("alone", lambda alone: (leak(alone), None), {0.985: "suspect", 0.975: "silent"})
table.pair("gap", lambda gap: (leak(0.99, 0.99 - gap), None), {0.11: "suspect", 0.09: "silent"})
table.pair("others", lambda others: (leak(others=others), None), {0.11: "suspect", 0.09: "note"})
table.pair("others_p", lambda p: (leak(p=p), None), {0.9e-4: "suspect", 1.1e-4: "note"})
table.pair("lost", lambda part: fallen(0.6 * part), {0.49: "suspect", 0.51: "silent"})
table.pair("lost_p", lambda p: fallen(p=p), {0.9e-6: "suspect", 1.1e-6: "silent"})
table.pair("kept", lambda part: fallen(others=0.4 * part), {0.61: "suspect", 0.59: "silent"})


def simple(p: float = 0.5, **facts: Any) -> Baselines:
    """Return simple models that find a relation with this probability by chance."""
    return minimal(Baselines, kind="classes", scores={"linear": 0.5}, best="linear", p=p, **facts)


def own(p: float = 0.5, count: int = 1000, **facts: Any) -> OwnRelation:
    """Return the model, trained on so many samples."""
    return minimal(OwnRelation, p=p, trained_on=count, **{"overfitted": True, **facts})


table = Table("labels-unrelated-to-inputs")
table.row("neither can be evaluated", "not applicable", None, None)
table.row("only simple models, which find none", "not applicable", simple(), None)
table.row("only the model finds one", "silent", simple(), own(0.0))
table.row("the model was stopped early", "note", simple(), own(overfitted=False))
table.pair("p_value", lambda p: (simple(p), own()), {0.011: "suspect", 0.009: "silent"})
table.pair("samples", lambda count: (simple(), own(count=count)), {120: "suspect", 119: "note"})
table.pair("surely", lambda p: (simple(held_out=p), own()), {0.0029: "bug", 0.0031: "suspect"})


def noisy(surest: int = 200, rest: int = 400, count: int = 3000, gain: float = 0.8) -> Baselines:
    """Return labels of which so many disagree: in the third where a simple model is surest, and in the rest."""
    wrong = np.zeros(count, int)
    wrong[:surest] = 1
    wrong[count // 3 : count // 3 + rest] = 1
    return minimal(
        Baselines,
        kind="classes",
        size=count,
        scores={"linear": 0.5 + 0.5 * gain},
        best="linear",
        chance=0.5,
        indices=tuple(range(count)),
        classes=(0.0, 1.0),
        labels=wrong,
        predicted=np.zeros(count, int),
        sure=np.linspace(1, 0, count),
        given=np.zeros(count),
    )


table = Table("noisy-labels")
table.row("numbers", "not applicable", minimal(Baselines, kind="numbers"))
table.row("right where it is sure", "silent", noisy(0))
table.pair("noise", lambda count: noisy(count, 2 * count), {78: "suspect", 72: "silent"})
table.pair("alpha", lambda count: noisy(count, 2 * count), {74: "suspect", 73: "silent"})
table.pair("gain", lambda gain: noisy(gain=gain), {0.31: "suspect", 0.29: "silent"})
table.pair("flat", lambda rest: noisy(150, rest), {480: "suspect", 505: "silent"})
table.pair("samples", lambda count: noisy(20, 20, count), {100: "suspect", 99: "not applicable"})


def graphs(highest: int = 8, empty: int = 14) -> JoinedGraphs:
    """Return a batch of 16 graphs with at most 9 nodes."""
    return JoinedGraphs("edges", 16, 112, 9, highest, empty)


table = Table("edges-not-offset")
table.row("not shifted", "bug", graphs())
table.row("shifted", "silent", graphs(111, 0))
table.row("few graphs with edges", "silent", graphs(111, 14))
table.pair("empty", lambda share: graphs(empty=round(16 * share)), {0.56: "bug", 0.5: "silent"})
