"""Verdicts about a look through the training data: classes, copies, constant values, and what fails to load."""

from __future__ import annotations

from typing import Any

import numpy as np

from nbdebug.checks.data.extreme_batch_size import LoneSample
from nbdebug.checks.data.invalid_labels import LabelTrial, LabelTrials
from nbdebug.checks.data.non_finite_inputs import BadValuesReach
from nbdebug.checks.loss.class_ignored_by_loss import IgnoredClasses
from nbdebug.evidence.class_weighting import ClassWeighting
from nbdebug.evidence.epoch_order import EpochOrder
from nbdebug.evidence.last_tokens import LastTokens
from nbdebug.evidence.loader_sweep import LoaderSweep, OrderedLook, SampleFailure
from nbdebug.evidence.loader_sweep_tally import PartFacts
from nbdebug.evidence.sampler_weights import SamplerWeights
from nbdebug.evidence.target_influence import TargetInfluence, TargetUse
from tests.verdicts.table import Table, minimal


def part(role: str, **facts: Any) -> PartFacts:
    """Return an input of four columns, or a target that is one class."""
    own = {"shape": (4,), "width": 4, "dtype": "float32"} if role == "input" else {"width": 1, "dtype": "int64"}
    return minimal(PartFacts, name=f"batch[{int(role == 'target')}]", role=role, **{"samples": 1000, **own, **facts})


def sweep(seen: int = 1000, labels: Any = None, **facts: Any) -> LoaderSweep:
    """Return a look at so many samples, with these labels, and batches of ten."""
    known = {"way": "all", "total": seen, "parts": (part("input"), part("target")), "ordered": OrderedLook((10, 10))}
    known |= {"indices": np.arange(seen), "blank": np.zeros(seen, bool)}
    return minimal(
        LoaderSweep, seen=seen, labels={} if labels is None else {"batch[1]": np.asarray(labels)}, **{**known, **facts}
    )


def counts(most: int, least: int) -> LoaderSweep:
    """Return a look at two classes."""
    return sweep(most + least, [0] * most + [1] * least)


def weighting(rare: float = 1.0, discount: float | None = None) -> ClassWeighting:
    """Return a loss that pulls so hard at the rare class 1, compared with 1 at class 0."""
    return ClassWeighting({0: 1.0, 1: rare}, discount)


EMPTY = sweep(ordered=OrderedLook())
table = Table("class-imbalance")
table.row("no classes", "not applicable", sweep(), None)
table.row("two even classes", "silent", counts(500, 500), weighting())
table.row("whether it compensates is unknown", "note", counts(1000, 10), None)
table.pair("ratio", lambda most: (counts(most, 1000), weighting()), {11_000: "suspect", 10_500: "silent"})
table.pair("alpha", lambda most: (counts(most, 20), weighting()), {343: "suspect", 340: "silent"})
table.pair("weighted", lambda pull: (counts(1000, 10), weighting(pull)), {1.4: "suspect", 1.6: "silent"})
table.pair("eased", lambda left: (counts(1000, 10), weighting(1.0, left)), {0.51: "suspect", 0.49: "silent"})
table.pair("least", lambda seen: (counts(seen - 2, 2), weighting()), {50: "silent", 49: "not applicable"})


def blanks(count: int, labels: Any = None) -> LoaderSweep:
    """Return a thousand samples, of which the first ones have one value everywhere."""
    return sweep(labels=labels, blank=np.arange(1000) < count)


def same(seen: int, **facts: Any) -> LoaderSweep:
    """Return a look in which all samples are alike."""
    return sweep(seen, parts=(part("input", varies=False, samples=seen, **facts),))


def half_shared(hits: int) -> LoaderSweep:
    """Return a hundred blank samples of two even classes, of which so many have the first."""
    first, rest = [0] * hits + [1] * (100 - hits), [0] * (500 - hits) + [1] * (400 + hits)
    return blanks(100, first + rest)


table = Table("constant-inputs")
table.row("all samples differ", "silent", sweep())
table.row("a constant column", "note", sweep(parts=(part("input", constant_columns=(2,)),)))
table.row("one of two inputs", "note", sweep(parts=(part("input", varies=False), part("input"))))
table.row("blank samples with many targets", "suspect", blanks(100, np.arange(1000) % 10))
table.pair("blank_share", blanks, {51: "note", 49: "silent"})
table.pair("least", same, {16: "bug", 15: "not applicable"})
table.pair("p_value", half_shared, {66: "suspect", 67: "note"})


def target(seen: int = 1000, **facts: Any) -> LoaderSweep:
    """Return a look at one target."""
    return sweep(seen, parts=(part("target", samples=seen, **facts),))


IGNORED = minimal(TargetInfluence, uses=(minimal(TargetUse, name="batch[1]"),))
table = Table("constant-targets")
table.row("no target", "not applicable", sweep(parts=()), None)
table.row("targets that differ", "silent", target(), None)
table.row("one that the loss ignores", "note", target(varies=False), IGNORED)
table.row("a constant column", "note", target(shape=(3,), width=3, constant_columns=(0,)), None)
table.pair("least", lambda seen: (target(seen, varies=False), None), {20: "bug", 19: "not applicable"})


def copies(equal: int, count: int = 200) -> LoaderSweep:
    """Return samples of which so many have one copy."""
    keys = np.arange(count)
    keys[count - equal :] = np.arange(equal)
    rows = np.arange(count, dtype=np.float32)[:, None]
    return sweep(count, keys=keys, parts=(part("input", rows=rows),))


def values(rows: np.ndarray, dtype: str) -> LoaderSweep:
    """Return a hundred samples with these values, half of them twice."""
    return sweep(100, keys=np.arange(100) // 2, parts=(part("input", rows=rows, dtype=dtype),))


def differing(places: int) -> LoaderSweep:
    """Return samples that differ in so many of eight values."""
    return values(np.arange(100)[:, None] * (np.arange(8) < places), "int64")


def with_neighbors(count: int) -> LoaderSweep:
    """Return samples of which so many differ from another one in a single value, and the rest in four."""
    rows = np.arange(100)[:, None] * (np.arange(8) < 4)
    rows[1:count:2] = rows[0:count:2] + (np.arange(8) == 7)
    return values(rows, "int64")


def column(distinct: int) -> LoaderSweep:
    """Return samples whose first column has so many values, and the second one few."""
    return values(np.stack([np.arange(100) % distinct, np.arange(100) // distinct], 1), "float32")


def oversampled(common: int, distinct: int) -> LoaderSweep:
    """Return a common class, and sixty samples drawn from a few distinct ones of a rare class."""
    keys = np.concatenate([np.arange(common), 1000 + np.arange(60) % distinct])
    rows = np.arange(common + 60, dtype=np.float32)[:, None]
    labels = [0] * common + [1] * 60
    return sweep(common + 60, labels, keys=keys, parts=(part("input", rows=rows), part("target")))


table = Table("duplicate-samples")
table.row("no tensors", "not applicable", sweep())
table.row("none", "silent", copies(0))
table.pair("copies", copies, {11: "suspect", 9: "note"})
table.pair("pairs", lambda equal: copies(equal, 40), {5: "suspect", 4: "note"})
table.pair("apart", differing, {4: "suspect", 3: "silent"})
table.pair("unique", column, {81: "suspect", 79: "silent"})
table.pair("nearest", with_neighbors, {24: "suspect", 26: "silent"})
table.pair("even", lambda common: oversampled(common, 30), {91: "suspect", 89: "note"})
table.pair("uneven", lambda distinct: oversampled(60, distinct), {31: "suspect", 29: "note"})
table.pair("least", lambda seen: copies(10, seen), {32: "suspect", 31: "not applicable"})

table = Table("empty-loader")
table.row("batches", "silent", sweep())
table.row("nothing can be read", "not applicable", sweep(0, ordered=OrderedLook(), failed=3))
table.row("an empty data set", "bug", sweep(0, ordered=OrderedLook()))
table.row("too few for one batch", "bug", sweep(0, total=10, batch_size=64, ordered=OrderedLook()))
table.row("too slow", "bug", sweep(0, total=10, stopped="time", ordered=OrderedLook()))


def batches(sizes: tuple[int, ...], total: int = 1000, lone: LoneSample | None = None, **look: Any) -> tuple[Any, ...]:
    """Return a loader with batches of these sizes, and what the model does with one sample."""
    return sweep(total=total, ordered=OrderedLook(sizes, **look)), lone or LoneSample(), None


FAILS = LoneSample("ValueError: more than 1 value per channel", normalizer="norm")
LAST = minimal(EpochOrder, last_batch=1)
table = Table("extreme-batch-size")
table.row("no batch", "not applicable", EMPTY, LoneSample(), None)
table.row("usual batches", "silent", *batches((32, 32)))
table.row("single samples", "note", *batches((1, 1)))
table.row("single samples that are normalized", "suspect", *batches((1, 1), lone=LoneSample(normalizer="norm")))
table.row("single samples that fail", "bug", *batches((1, 1), lone=FAILS))
table.row("a last one that fails", "bug", *batches((32, 1), lone=FAILS, complete=True))
table.row("a last one that fails, by the sampler", "bug", *batches((32, 32), lone=FAILS)[:2], LAST)
table.pair("share", lambda size: batches((size,), 100), {51: "note", 49: "silent"})
table.pair("least", lambda total: batches((60,), total), {64: "note", 63: "silent"})


def labels(seen: int, classes: int = 2, **facts: Any) -> tuple[Any, ...]:
    """Return a look at samples of class 0, and what the loss does with labels outside of so many classes."""
    return sweep(seen, np.zeros(seen, int)), LabelTrials("batch[1]", classes, **facts)


table = Table("invalid-labels")
table.row("no batch", "not applicable", EMPTY, minimal(LabelTrials))
table.row("no classes", "not applicable", *labels(10, reason="the targets are numbers"))
table.row("classes in range", "silent", *labels(10, trials=(LabelTrial(-100, "ignored"),)))
table.row("refused", "bug", *labels(10, trials=(LabelTrial(2, "refused"),)))
table.row("taken all the same", "suspect", *labels(10, trials=(LabelTrial(2, "taken"),)))
table.row("of another type", "bug", *labels(10, error="expected Long", repair="integers (y.long())"))
table.row("a loss without end", "bug", *labels(10, bottomless=True, low=-1.0, high=1.0))
table.pair("samples", labels, {40: "note", 39: "silent"})
table.pair("many", lambda classes: labels(21_000, classes), {1000: "note", 1001: "silent"})

NAN = part("input", nan=3, bad_samples=1, first_bad=7)
table = Table("non-finite-inputs")
table.row("no batch", "not applicable", EMPTY, None)
table.row("all finite", "silent", sweep(), None)
table.row("NaN", "bug", sweep(parts=(NAN,)), None)
table.row("NaN that the loss does not see", "note", sweep(parts=(NAN,)), BadValuesReach(inputs_swallowed=True))
table.row("an attention mask", "silent", sweep(parts=(part("input", negative_inf=9, low=0.0, high=0.0),)), None)

table = Table("sample-fails")
table.row("all load", "silent", sweep())
table.row("reading", "bug", sweep(failed=1, failures=(SampleFailure(3, "reading", "OSError: 'a.png'"),)))
table.row("collating", "bug", sweep(failed=1, failures=(SampleFailure(3, "collating", "RuntimeError: shapes"),)))


def rare(count: int) -> LoaderSweep:
    """Return a look at two classes, of which one has so many samples."""
    return counts(1000 - count, count)


table = Table("too-few-examples")
table.row("no batch", "not applicable", EMPTY)
table.row("enough", "silent", rare(500))
table.pair("per_class", rare, {9: "note", 10: "silent"})
table.pair("at_all", sweep, {99: "note", 100: "silent"})
table.pair("parameters", lambda each: sweep(trainable=1000 * each), {1001: "note", 1000: "silent"})


def inverted(middle: float = 0.0, spread: float = 4.0, classes: int = 3) -> tuple[LoaderSweep, ClassWeighting, None]:
    """Return classes of which each next is half as frequent, and their weights; `middle` bends their line."""
    labels = [0] * 400 + [1] * 200 + [2] * 100
    places = [0.5, middle / 2, -0.5][:classes]
    return sweep(700, labels), ClassWeighting({c: spread**place for c, place in enumerate(places)}), None


table = Table("class-weights-inverted")
ERROR = ClassWeighting(reason="the loss raised an error")
table.row("no weights known", "not applicable", counts(500, 500), ERROR, None)
table.row(
    "a sampler that follows the counts", "suspect", None, None, SamplerWeights(((100, 4.0), (50, 2.0), (25, 1.0)))
)
table.row("a sampler that makes up for them", "silent", None, None, SamplerWeights(((100, 1.0), (50, 2.0), (25, 4.0))))
table.row("nothing known", "not applicable", None, None, None)
table.row("weights that are the counts", "suspect", *inverted())
table.row("inverse weights", "silent", *inverted(spread=0.25))
table.pair("classes", lambda classes: inverted(classes=classes), {3: "suspect", 2: "not applicable"})
table.pair("correlation", inverted, {0.8: "suspect", 0.88: "silent"})
table.pair("spread", lambda spread: inverted(spread=spread), {1.6: "suspect", 1.4: "silent"})


def weighed(least: float, **facts: Any) -> tuple[None, LoaderSweep, ClassWeighting, None]:
    """Return three equally frequent classes, of which the last has so little weight."""
    known = ClassWeighting({0: 1.0, 1: 1.0, 2: least}, is_scored=True, **facts)
    return None, sweep(300, [0, 1, 2] * 100), known, None


table = Table("class-ignored-by-loss")
table.row("none", "silent", IgnoredClasses(3, 64, {}, ""), None, None, None)
table.row("one of three", "suspect", IgnoredClasses(3, 64, {0: 20}, "ignore_index=0"), None, None, None)
table.row("a tenth of the weight", "silent", *weighed(0.1))
table.row("no weight in a loss of one's own", "suspect", *weighed(0.0))
table.row("one output", "silent", None, sweep(300, [0, 1, 2] * 100), ClassWeighting({0: 0.0, 1: 1.0, 2: 2.0}), None)
table.row(
    "weights for balance", "silent", None, sweep(1010, [0] * 1000 + [1] * 10),
    ClassWeighting({0: 0.005, 1: 1.0}, is_scored=True), None,
)  # fmt: skip
table.row("neither is known", "not applicable", None, None, None, None)
table.pair("share", weighed, {0.009: "suspect", 0.011: "silent"})


def ended(before: float = 1.0, counted: float = 0.0, elsewhere: int = 0) -> tuple[None, None, None, LastTokens]:
    """Return texts that all end in one token, and how often it and the token before it count."""
    return None, None, None, LastTokens("input_ids", 31, 32, 1.0, counted, before, elsewhere)


table.row("the end is never asked for", "suspect", *ended())
table.row("the end counts", "silent", *ended(counted=1.0))
table.row("the end counts elsewhere", "silent", *ended(elsewhere=3))
table.pair("counted", ended, {0.96: "suspect", 0.94: "silent"})
