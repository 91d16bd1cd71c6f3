"""Verdicts about which samples come, in which order, how often, and what reading them again gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from nbdebug.checks.data.collate_mixes_samples import CollatedOrder
from nbdebug.checks.data.destructive_augmentation import Augmentation
from nbdebug.checks.data.stream_not_split import StreamParts
from nbdebug.checks.data.worker_rng_duplicates import Workers
from nbdebug.evidence.batch_repeats import BatchRepeats
from nbdebug.evidence.epoch_order import EpochOrder
from nbdebug.evidence.loader_sweep import LoaderSweep, OrderedLook
from nbdebug.evidence.repeated_reads import Rereading
from nbdebug.evidence.step_calls import StepCalls
from tests.verdicts.data_sweep import part, sweep
from tests.verdicts.table import Table, minimal


def ordered(
    labels: Any, sizes: tuple[int, ...] = (10, 10), everywhere: Any = (0, 1), dtype: str = "int64", **facts: Any
) -> LoaderSweep:
    """Return labels in the loader's order, in batches of these sizes, and those of samples chosen at random."""
    look = OrderedLook(sizes, labels={"batch[1]": np.asarray(labels)}, complete=facts.pop("complete", False))
    return sweep(labels=everywhere, ordered=look, parts=(part("input"), part("target", dtype=dtype)), **facts)


def single(count: int, of: int, size: int, everywhere: Any, seen: int = 1000) -> LoaderSweep:
    """Return batches of which the first ones have a single class."""
    batches = [np.zeros(size, int) if index < count else np.arange(size) % 2 for index in range(of)]
    return ordered(np.concatenate(batches), (size,) * of, everywhere, seen=seen)


MANY = np.arange(1000)
table = Table("single-class-batches")
table.row("no classes", "not applicable", sweep())
table.row("too few batches", "not applicable", single(1, 2, 8, MANY))
table.row("mixed", "silent", single(0, 20, 8, MANY))
table.pair("p", lambda of: single(3, 20, 9, np.arange(1000) < of), {528: "suspect", 540: "silent"})
table.pair("share", lambda of: single(2, of, 8, MANY), {19: "suspect", 20: "silent"})
table.pair("least", lambda seen: single(20, 20, 8, MANY, seen), {32: "suspect", 31: "not applicable"})
table.pair("size", lambda size: single(20, 20, size, MANY), {4: "suspect", 3: "not applicable"})
table.pair("batches", lambda count: single(count, count, 8, MANY), {3: "suspect", 2: "not applicable"})


def runs(agree: np.ndarray, **facts: Any) -> tuple[LoaderSweep, None]:
    """Return labels of two even classes of which each agrees with the one before, or not."""
    labels = np.concatenate([[0], np.cumsum(~agree) % 2])
    return ordered(labels, **facts), None


def edges(agree: int, of: int = 19) -> tuple[LoaderSweep, None]:
    """Return batches of one class each, of which so many have the class of the one before."""
    same = np.ones(50 * of + 49, bool)
    same[49::50] = np.arange(of) < agree
    return runs(same, sizes=(50,) * (of + 1))


def numbers(labels: np.ndarray) -> tuple[LoaderSweep, None]:
    """Return targets that are numbers."""
    return ordered(labels, everywhere=[0.5, 1.5], dtype="float32"), None


def drifting(share: float) -> tuple[LoaderSweep, None]:
    """Return numbers that keep so much of the one before."""
    noise, values = np.random.default_rng(0).normal(size=5000), [0.0]
    for step in noise:
        values.append(share * values[-1] + step)
    return numbers(np.array(values))


def rising(noise: float) -> tuple[LoaderSweep, None]:
    """Return numbers that rise from 0 to 1, with noise."""
    return numbers(np.linspace(0, 1, 2000) + noise * np.random.default_rng(0).uniform(size=2000))


RANDOM = np.random.default_rng(0).uniform(size=1000) < 0.5
SAME_ORDER = minimal(EpochOrder, drawn=100, batch_size=10, same_order=True, ascending=True)
table = Table("unshuffled-loader")
table.row("one batch", "not applicable", ordered([0, 1], (2,), complete=True), None)
table.row("shuffled", "silent", *runs(RANDOM))
table.row("shuffled, in the same order each epoch", "note", runs(RANDOM)[0], SAME_ORDER)
table.row("sorted, from a stream", "suspect", *runs(np.arange(999) != 500, way="first"))
table.pair("p", lambda count: runs(np.arange(count) % 4 != 3), {212: "suspect", 208: "silent"})
table.pair("excess", lambda rate: runs(np.arange(5000) < rate * 5000), {0.71: "suspect", 0.69: "silent"})
table.pair("edges", edges, {12: "suspect", 11: "silent"})
table.pair("batches", lambda count: edges(0, count), {4: "suspect", 5: "silent"})
table.pair("correlation", drifting, {0.55: "note", 0.5: "silent"})
table.pair("ordered", rising, {0.44: "suspect", 0.53: "note"})
table.pair("least", lambda seen: runs(np.ones(999, bool), seen=seen), {32: "suspect", 31: "not applicable"})


def order(distinct: int = 100, **facts: Any) -> EpochOrder:
    """Return a pass that draws so many of a thousand samples, and a second one that draws the same."""
    known = {"total": 1000, "drawn": distinct, "distinct": distinct, "distinct_in_two": distinct, "batch_size": 10}
    return minimal(EpochOrder, **{**known, **facts})


def cut_off(lost: int) -> EpochOrder:
    """Return a loader whose only batch leaves out so many samples."""
    return order(1000 - lost, batch_size=1000 - lost, drop_last=True)


table = Table("samples-dropped")
table.row("empty", "not applicable", order(0))
table.row("sharded", "not applicable", order(replicas=2))
table.row("all drawn", "silent", order(1000))
table.row("the rest drawn by another loader", "silent", order(100, elsewhere=900))
table.row("a small subset", "note", order(1000, subset_of=10_000))
table.pair("dropped", cut_off, {101: "suspect", 99: "silent"})
table.pair("unseen", lambda lost: order(1000 - lost), {501: "suspect", 499: "note"})
table.pair("moves_on", lambda times: order(400, distinct_in_two=round(400 * times)), {1.04: "suspect", 1.06: "silent"})


def repeats(copies: int, **facts: Any) -> BatchRepeats:
    """Return a hundred batches, of which so many are copies."""
    return minimal(BatchRepeats, seen=100, distinct=100 - copies, **{"in_a_row": 2, "one_pass": True, **facts})


table = Table("repeated-batches")
table.row("none", "silent", repeats(0), None)
table.row("not in a row", "note", repeats(50, in_a_row=1), None)
table.row("training on the full batch", "note", repeats(99, one_pass=False), None)
table.row("an inner loop", "note", repeats(50, one_pass=False, in_a_row=20, is_inner=True), None)
table.pair("share", lambda value: (repeats(value), None), {11: "bug", 10: "silent"})
table.pair("few", lambda distinct: (repeats(100 - distinct, in_a_row=1), None), {2: "bug", 3: "note"})
table.pair("in_a_row", lambda times: (repeats(50, one_pass=False, in_a_row=times), None), {10: "suspect", 9: "silent"})
table.row("a step that ignores its batch", "bug", None, minimal(StepCalls, calls=6, inputs=1))
table.row("a step that reads its batch", "silent", None, minimal(StepCalls, calls=6, inputs=6))
table.row("nothing known", "not applicable", None, None)


def reread(changed: int, **facts: Any) -> Rereading:
    """Return ten samples, of which so many differ when they are read again."""
    return minimal(Rereading, read=10, changed=changed, examples=(3,), **facts)


table = Table("preprocessing-mutates-data")
table.row("the same again", "silent", reread(0), None)
table.row("stored values that changed", "bug", reread(2, stored=("data",)), None)
table.row("only what was read", "bug", reread(2, local=2), None)
table.row("other samples as well", "note", reread(2, local=1), None)
table.row("one piece of memory for all samples", "bug", reread(0, overwritten=10), None)
table.row("a step that changes its batch", "bug", None, minimal(StepCalls, calls=6, changed=("batch[0]",)))
table.row("nothing known", "not applicable", None, None)


def workers(equal: int = 0, repeated: int = 0, persistent: bool = False) -> Workers:
    """Return eight samples that two workers read, of which so many are equal, or the same in a second epoch."""
    return minimal(Workers, compared=8, sandboxes=equal, repeats=repeated, persistent=persistent)


table = Table("worker-rng-duplicates")
table.row("independent", "silent", workers(1, 1))
table.row("all equal", "bug", workers(8))
table.row("all repeated", "suspect", workers(0, 8))
table.row("repeated by workers that stay", "silent", workers(0, 8, persistent=True))


def augmented(recognized: float = 2.0, upper: float = 9.0, p: float = 0.0, **facts: Any) -> Augmentation:
    """Return how often augmented samples are recognized, in multiples of chance."""
    chance = 1 / 24
    known = {"samples": 24, "readings": 16, "chance": chance, **facts}
    return minimal(Augmentation, recognized=recognized * chance, upper=upper * chance, p=p, **known)


table = Table("destructive-augmentation")
table.row("recognized", "silent", augmented(20.0, 22.0))
table.row("the class is kept", "silent", augmented(clean_gain=0.8, gain=0.7))
table.pair("times_chance", lambda upper: augmented(upper=upper), {2.4: "suspect", 2.6: "silent"})
table.pair("surely", lambda share: augmented(2.5 * share, p=1.0), {0.59: "bug", 0.61: "suspect"})
table.pair("p_value", lambda p: augmented(p=p), {0.0011: "suspect", 0.0009: "silent"})
table.pair("kept", lambda share: augmented(clean_gain=0.8, gain=0.8 * share), {0.14: "suspect", 0.16: "silent"})
table.pair(
    "sorted_kept", lambda times: augmented(clean_gain=0.8, sorted_gain=0.12 * times), {2.9: "suspect", 3.1: "silent"}
)
table.pair("predictable", lambda gain: augmented(clean_gain=gain), {0.41: "suspect", 0.39: "silent"})
table.pair("least", lambda samples: augmented(p=1.0, samples=samples), {8: "suspect", 7: "not applicable"})

table = Table("stream-not-split")
table.row("another part", "silent", StreamParts(2, 16, 16, 0))
table.row("some are equal", "silent", StreamParts(2, 16, 16, 15))
table.row("an empty part", "silent", StreamParts(2, 0, 0, 0))
table.pair("least", lambda distinct: StreamParts(2, 4, distinct, 4), {4: "bug", 3: "silent"})

table = Table("collate-mixes-samples")
table.row("all as it was", "silent", minimal(CollatedOrder, samples=8))
table.row("scaled by the batch", "suspect", minimal(CollatedOrder, samples=8, scaled="batch[0]"))
table.row("a random forward pass", "silent", minimal(CollatedOrder, samples=8, moved=0.5, noise=0.1))
table.pair("moved", lambda moved: minimal(CollatedOrder, samples=8, moved=moved), {0.06: "bug", 0.04: "silent"})
table.pair("noises", lambda n: minimal(CollatedOrder, samples=8, moved=0.1, noise=0.1 / n), {11: "bug", 9: "silent"})
table.pair(
    "exchanged", lambda n: minimal(CollatedOrder, samples=8, exchanged=n, target="batch[1]"), {2: "bug", 1: "silent"}
)
