"""Verdicts about a training that is watched: its loss, its weights and predictions, and its ranks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nbdebug.evidence.moving_buffers import MovingBuffers
from nbdebug.evidence.ranks import Ranks
from nbdebug.evidence.recorded.loss_course import LossCourse
from nbdebug.evidence.recorded.values import FirstBadValue, PredictionChanges
from nbdebug.evidence.recorded.weights import WeightGrowth
from nbdebug.setup.distributed.rank_facts import RankFacts, TensorPrint
from tests.verdicts.table import Table, minimal


def course(now: float = 1.0, **facts: Any) -> LossCourse:
    """Return a thousand steps with a loss of 1 throughout, and another one in the end."""
    known = {"count": 1000, "start": 1.0, "best": 1.0, "opening": 1.0, "first": 1.0, "before": 1.0, "later": 1.0}
    return minimal(LossCourse, now=now, **{"now_low": now, **known, **facts})


def falling(now: float, opening: float = 2.0, share: float = 0.5, **facts: Any) -> LossCourse:
    """Return a loss that falls below zero, by this share of itself in the last quarter."""
    return course(now, opening=opening, later=now, before=now + share * abs(now), **facts)


table = Table("loss-diverges")
table.row("rivals", "not applicable", course(others=1))
table.row("episodes", "not applicable", course(is_episodic=True))
table.row("a loss that stays", "silent", course())
table.pair("factor", course, {2.1: "suspect", 1.9: "silent"})
table.pair("sigmas", lambda error: course(11.0, start_error=error), {1.9: "suspect", 2.1: "silent"})
table.pair("surely", lambda times: course(1 + times), {10.5: "bug", 9.5: "suspect"})
table.pair("least", lambda count: course(3.0, count=count), {40: "suspect", 39: "not applicable"})
table.pair("below", lambda times: falling(-2 * times), {10.5: "suspect", 9.5: "silent"})
table.pair("runaway", lambda grown: course(12.0, start=10.0, grown=grown), {3.1: "bug", 2.9: "silent"})
table.pair("scale", lambda size: falling(-10 * size, 0.1), {1.05: "suspect", 0.95: "silent"})
table.pair("below_zero", lambda times: falling(-10 * times, -1.0), {10.5: "suspect", 9.5: "silent"})
table.pair("enough", lambda count: falling(-100.0, count=count), {200: "suspect", 199: "silent"})
table.pair("falling", lambda share: falling(-100.0, share=share), {0.16: "suspect", 0.14: "silent"})

table = Table("loss-flat")
table.row("data of its own", "not applicable", course(makes_data=True))
table.row("a rate that still rises", "not applicable", course(warming_up=True))
table.row("a loss that falls", "silent", course(0.5))
table.pair("least", lambda count: course(count=count), {200: "suspect", 199: "not applicable"})
table.pair("fall", lambda fall: course(1 - fall), {0.019: "suspect", 0.021: "silent"})
table.pair("sigmas", lambda error: course(now_error=error), {0.0066: "suspect", 0.0068: "silent"})
table.pair("gained", lambda gained: course(best=1 - gained), {0.19: "suspect", 0.21: "silent"})
table.pair("scatter", lambda noise: course(noise=noise), {0.24: "suspect", 0.26: "silent"})
table.pair("risen", course, {1.49: "suspect", 1.51: "silent"})


def spiking(count: int, lasting: int, **facts: Any) -> LossCourse:
    """Return a loss with so many spikes, of which some last."""
    return course(spikes=tuple((step, 9.0, 1.0) for step in range(count)), lasting=lasting, **facts)


table = Table("loss-spikes")
table.row("an inner loop", "not applicable", spiking(9, 9, begins_again=True))
table.row("none", "silent", spiking(0, 0))
table.pair("spikes", lambda count: spiking(count, count), {3: "suspect", 2: "silent"})
table.pair("lasting", lambda lasting: spiking(10, lasting), {5: "suspect", 4: "silent"})

table = Table("still-improving")
table.row("a loss that stays", "silent", course())
table.pair("least", lambda count: course(later=0.5, count=count), {100: "note", 99: "not applicable"})
table.pair("fall", lambda fall: course(later=1 - fall), {0.051: "note", 0.049: "silent"})
table.pair("sigmas", lambda error: course(later=0.6, later_error=error), {0.09: "note", 0.11: "silent"})

table = Table("non-finite-loss")
table.row("finite", "silent", FirstBadValue(None, 0, 100))
table.row("NaN from a step on", "bug", FirstBadValue(50, 50, 100))
table.row("NaN in a gradient", "bug", FirstBadValue(50, 50, 100, where="0", what="gradient", where_step=49))
table.row("NaN from the loss function", "bug", FirstBadValue(50, 50, 100, finite_at=50))


def changes(early: float, late: float, calm: float | None = None, count: int = 20) -> PredictionChanges:
    """Return the share of predictions that change between evaluations; three of the last ones may be calm."""
    shares = [early] * (count // 2) + [late] * (count - count // 2)
    shares[-3:] = shares[-3:] if calm is None else [calm] * 3
    return PredictionChanges(tuple(shares), tuple(range(count)))


table = Table("predictions-unstable")
table.row("settled", "silent", changes(0.5, 0.0))
table.pair("share", lambda share: changes(0.4, share), {0.31: "suspect", 0.29: "silent"})
table.pair("low", lambda share: changes(0.4, 0.4, 0.3 * share), {0.51: "suspect", 0.49: "silent"})
table.pair("calmed", lambda share: changes(0.8, 0.8 * share), {0.51: "suspect", 0.49: "silent"})
table.pair("least", lambda count: changes(0.5, 0.5, count=count), {10: "suspect", 9: "not applicable"})


def growth(last: float = 16.0, late: float = 1.5, steps: int = 1000) -> WeightGrowth:
    """Return a matrix whose norm began at 1, and its growth in the last quarter."""
    return WeightGrowth((("0.weight", 1.0, last, late, 0.1),), steps, 100)


table = Table("weights-growing")
table.row("of one size", "silent", growth(1.0), None)
table.pair("factor", lambda last: (growth(last), None), {11.0: "suspect", 9.0: "silent"})
table.pair("recent", lambda late: (growth(late=late), None), {1.06: "suspect", 1.04: "silent"})
table.pair("least", lambda steps: (growth(steps=steps), None), {100: "suspect", 99: "not applicable"})
table.pair("learned", lambda now: (growth(), course(now)), {0.89: "note", 0.91: "suspect"})


def ranks(*others: RankFacts, **facts: Any) -> Ranks:
    """Return rank 0 with these facts, and the others."""
    return Ranks((RankFacts(0, **facts), *others))


def epochs(count: float) -> Ranks:
    """Return a sampler at epoch 0 after so many epochs."""
    return ranks(fixed_order=True, epoch=0, epochs=count)


table = Table("epochs-in-one-order")
table.row("an unknown order", "not applicable", ranks())
table.row("another order each epoch", "silent", ranks(batches=(1, 2, 3)))
table.row("the same order each epoch", "note", ranks(batches=(1, 2, 1, 2), period=2))
table.row("the same order from a sampler", "suspect", ranks(batches=(1, 2, 1, 2), period=2, fixed_order=True))
table.pair("epochs", epochs, {2.1: "note", 1.9: "silent"})


def times(lost: float = 1.0, waited: float = 1.0, backward: float = 0.1, steps: int = 100) -> Ranks:
    """Return two ranks: the second loses time before the forward pass, and the first waits for a part of that."""
    seconds = [(1.0, backward + waited * lost), (1.0 + lost, backward)]
    facts = [
        RankFacts(rank, steps=steps, times={"data": (data,) * 3, "forward": (0.1,) * 3, "backward": (back,) * 3})
        for rank, (data, back) in enumerate(seconds)
    ]
    return Ranks(tuple(facts))


table = Table("lagging-rank")
table.row("equally quick", "silent", times(0.0))
table.pair("slower", lambda factor: times(factor - 1), {1.6: "suspect", 1.4: "silent"})
table.pair("share", lambda share: times(backward=1 / share - 2.1), {0.21: "suspect", 0.19: "silent"})
table.pair("waited", lambda share: times(waited=share), {0.51: "suspect", 0.49: "silent"})
table.pair("least", lambda steps: times(steps=steps), {20: "suspect", 19: "not applicable"})


def tensors(apart: float, is_buffer: bool, kept: bool = False, **facts: Any) -> Ranks:
    """Return a tensor of ones that differs by so much on the second rank."""
    one, two = (
        TensorPrint("0.weight", is_buffer, (4,), kept, 2.0, 4.0, (value, 1.0, 1.0, 1.0)) for value in (1, 1 + apart)
    )
    return ranks(RankFacts(1, (two,), **facts), prints=(one,))


def correlated(share: float) -> Ranks:
    """Return weights that correlate so much with those of the second rank."""
    mine, other = np.tile([1.0, -1.0], 4), np.tile([1.0, 1.0, -1.0, -1.0], 2)
    theirs = share * mine + math.sqrt(1 - share**2) * other
    prints = [TensorPrint("0.weight", False, (8,), False, 1.0, 0.0, tuple(sample)) for sample in (mine, theirs)]
    return ranks(RankFacts(1, (prints[1],)), prints=(prints[0],))


table = Table("rank-buffers-differ")
table.row("alike", "silent", tensors(0.0, True), MovingBuffers(()))
table.row("running statistics", "note", tensors(0.1, True), MovingBuffers(("0.weight",)))
table.pair("rounding", lambda apart: (tensors(apart, True), MovingBuffers(())), {1.1e-5: "suspect", 0.9e-5: "silent"})

table = Table("ranks-drift-apart")
table.row("alike", "silent", tensors(0.0, False))
table.row("averaged by the user's own hook", "note", tensors(0.1, False, kept=True, own_averaging=True))
table.pair("rounding", lambda apart: tensors(apart, False, kept=True), {1.1e-5: "bug", 0.9e-5: "silent"})
table.pair("alike", correlated, {0.91: "suspect", 0.89: "note"})


def shared(count: int, of: int = 100) -> Ranks:
    """Return two ranks with so many batches in common."""
    theirs = tuple(index if index < count else 1000 + index for index in range(of))
    return ranks(RankFacts(1, batches=theirs, steps=of), batches=tuple(range(of)), steps=of)


def everything(count: int) -> Ranks:
    """Return two ranks that both draw all samples, one backwards."""
    facts = {"draws": count, "samples": count}
    order = tuple(range(count))
    return ranks(RankFacts(1, order=order[::-1], **facts), order=order, **facts)


table = Table("ranks-share-data")
table.row("unknown samples", "not applicable", ranks(RankFacts(1)))
table.row("shards", "silent", shared(0))
table.row("all of the data in another order", "suspect", everything(100))
table.pair("same", shared, {91: "bug", 89: "silent"})
table.pair("least", lambda count: shared(count, count), {8: "bug", 7: "silent"})
