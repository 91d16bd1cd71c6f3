"""Augmentation that destroys the signal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import beta, binom
from sklearn.metrics import pairwise_distances

from nbdebug.charts import Bars
from nbdebug.core.control import Control
from nbdebug.core.finding import Finding, Remedy, Severity
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.baselines import class_scores
from nbdebug.evidence.repeated_reads import Rereading
from nbdebug.evidence.sample_table import Samples, SampleTable
from nbdebug.setup import Setup
from nbdebug.setup.feature_rows import Columns, columns_of, joined
from nbdebug.setup.sample_dataset import fresh_reader

__all__ = ["Augmentation", "augmentation", "destructive_augmentation"]


@dataclass(frozen=True)
class Augmentation:
    """How well the index of a sample can be told from one random reading of it, by the other readings.

    `recognized` is the best of three ways (nearest reading, nearest mean, nearest by values in order of size); chance
    is one over the number of samples. The gains say how far simple models get from chance to perfect in predicting the
    class of clean samples, of augmented ones, and of augmented ones by their values in order of size.
    """

    samples: int
    readings: int
    recognized: float
    chance: float
    p: float
    upper: float
    clean_gain: float | None = None
    gain: float = 0.0
    sorted_gain: float = 0.0


SAMPLES, READINGS = 24, 16
FEWEST_READINGS = 4
LABELLED, FEWEST = 400, 60  # samples whose class simple models predict


@probe(quick=False)
def augmentation(setup: Setup, samples: Samples, rereading: Rereading, control: Control) -> Augmentation:
    """Load some samples repeatedly and test whether they stay distinguishable."""
    if not rereading.random:
        raise NotApplicable("reading a sample again returns the same values: there is no random augmentation")
    if rereading.target_random:
        raise NotApplicable("a sample gets a new target at every read: it is generated on the fly")
    if samples.train.kind == "none":
        raise NotApplicable("there is no target")
    reader = fresh_reader(setup.feed, setup.wrap)
    assert reader is not None  # it was there for the rereading
    chosen = _spread(samples)
    parts: list[Columns] = []
    for draw in control.as_many(range(READINGS), fewest=FEWEST_READINGS):
        for index in chosen:
            control.progress(len(parts) / (len(chosen) * READINGS), "loading augmented samples")
            parts.append(columns_of(reader.read(index, 1 + draw * 100_003 + index)))
    rows = joined(parts)[0][: len(parts) // len(chosen) * len(chosen)]
    found = _measure(rows, np.tile(np.arange(len(chosen)), len(rows) // len(chosen)))
    gains = _gains(samples, control)
    return replace(found, clean_gain=gains[0], gain=gains[1], sorted_gain=gains[2]) if gains else found


def _spread(samples: Samples) -> list[int]:
    """Choose samples of as many classes as there are: whatever tells them apart then counts, the label above all."""
    table = samples.train
    if table.kind != "classes" or table.labels is None:
        return list(table.indices[:SAMPLES])
    turn = np.zeros(len(table), dtype=int)
    for label in np.unique(table.labels):
        members = np.flatnonzero(table.labels == label)
        turn[members] = np.arange(len(members))
    return [table.indices[i] for i in np.argsort(turn, kind="stable")[:SAMPLES]]


def _measure(rows: np.ndarray, owner: np.ndarray) -> Augmentation:
    scale = rows.std(0)
    rows = rows[:, scale > 0] / scale[scale > 0] if (scale > 0).any() else rows
    count = int(owner.max()) + 1
    ways = (_by_nearest(rows, owner), _by_mean(rows, owner), _by_nearest(np.sort(rows, 1), owner))
    hits = max(int(way.sum()) for way in ways)
    size, chance = len(owner), 1 / count
    upper = float(beta.ppf(0.999, hits + 1, max(size - hits, 1e-9)))
    p = min(1.0, len(ways) * float(binom.sf(hits - 1, size, chance)))
    return Augmentation(count, size // count, float(hits / size), chance, p, upper)


def _by_nearest(rows: np.ndarray, owner: np.ndarray) -> np.ndarray:
    distance = pairwise_distances(rows)
    np.fill_diagonal(distance, np.inf)
    found: np.ndarray = owner[distance.argmin(1)] == owner
    return found


def _by_mean(rows: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """Compare each reading with the mean of the other readings of every sample."""
    count = int(owner.max()) + 1
    sums = np.stack([rows[owner == i].sum(0) for i in range(count)])
    sizes = np.bincount(owner)
    hits = np.zeros(len(rows), dtype=bool)
    for i, row in enumerate(rows):
        means = sums / sizes[:, None]
        means[owner[i]] = (sums[owner[i]] - row) / max(sizes[owner[i]] - 1, 1)
        hits[i] = ((means - row) ** 2).sum(1).argmin() == owner[i]
    return hits


def _gains(samples: Samples, control: Control) -> tuple[float, float, float] | None:
    """Let simple models predict the class of augmented and of clean samples, as far as there are clean ones.

    Values in order of size count as a third kind: shuffling the points of a set is an honest augmentation.
    """
    clean = samples.plain or next((t for t in samples.others if t.columns == samples.train.columns), None)
    if clean is None or samples.train.kind != "classes" or clean.kind != "classes":
        return None
    control.progress(0.9, "predicting augmented and clean samples")
    size = min(len(clean), len(samples.train), LABELLED)
    if size < FEWEST:
        return None
    ordered = _gain(samples.train, size, lambda rows: np.sort(rows, 1))
    return _gain(clean, size, np.asarray), _gain(samples.train, size, np.asarray), ordered


def _gain(table: SampleTable, size: int, view: Callable[[np.ndarray], np.ndarray]) -> float:
    """Return how far simple models get on the way from chance to perfect."""
    assert table.labels is not None
    labels = table.labels[:size]
    kept = np.bincount(labels)[labels] >= 4
    rows, labels = view(table.rows[:size])[kept], np.unique(labels[kept], return_inverse=True)[1]
    if len(rows) < FEWEST or len(np.unique(labels)) < 2:
        return 0.0
    chance = float(np.bincount(labels).max() / len(labels))
    scores = class_scores(rows, labels, lambda _: None).values()
    return (max(float((p.argmax(1) == labels).mean()) for p in scores) - chance) / (1 - chance)


@check(
    basis="statistic",
    explains=("labels-unrelated-to-inputs", "noisy-labels", "worse-than-baseline", "model-ignores-inputs"),
)
def destructive_augmentation(
    augmentation: Augmentation,
    *,
    times_chance: float = 2.5,  # almost chance level; our choice
    surely: float = 0.6,  # of `times_chance`: a bug; our choice
    p_value: float = 0.001,  # of a binomial test against chance; our choice
    kept: float = 0.15,  # fraction of what simple models predict on clean samples; our choice
    sorted_kept: float = 3.0,  # times `kept`, of values in order of size: what they say is hardly lost; our choice
    predictable: float = 0.4,  # from chance to perfect, on clean samples: less is no ground to compare; our choice
    least: int = 8,  # samples; our choice: with fewer, chance level is high
) -> Iterator[Finding]:
    """Augmentation destroys the information in the samples.

    nbdebug reads some samples many times with different random seeds and tries to identify which sample an augmented
    version comes from. Where clean samples are available, as in a validation set, it also compares how well simple
    models predict the class of clean and of augmented samples.

    Why it matters: augmentation should change what is irrelevant and keep what determines the label. If nothing of the
    sample is left, the label is unrelated to the input and there is nothing to learn.

    What to try: display a batch as the network receives it; weaken noise, crops, erasing and color changes one by one;
    train once without augmentation.
    """
    if augmentation.samples < least:
        raise NotApplicable(f"only {augmentation.samples} samples: too few to compare with chance level")
    if augmentation.p > p_value or augmentation.upper < times_chance * augmentation.chance:
        above = augmentation.recognized / augmentation.chance
        yield _finding(
            f"Only {augmentation.recognized:.1%} of {augmentation.samples * augmentation.readings} augmented versions "
            f"can be matched to their sample among {augmentation.samples} (chance level {augmentation.chance:.1%}).",
            "bug" if above < surely * times_chance else "suspect",
            augmentation,
            p_value,
            Bars(("identified", "chance level"), (augmentation.recognized, augmentation.chance)),
        )
    elif _class_is_lost(augmentation, kept, sorted_kept, predictable):
        clean = augmentation.clean_gain or 0.0
        yield _finding(
            f"Simple models close {clean:.0%} of the gap between chance and perfect accuracy on clean samples, but "
            f"only {max(augmentation.gain, 0):.0%} on augmented ones.",
            "suspect",
            augmentation,
            kept,
            Bars(("clean", "augmented"), (clean, max(augmentation.gain, 0.0))),
        )


def _class_is_lost(augmentation: Augmentation, kept: float, sorted_kept: float, predictable: float) -> bool:
    clean = augmentation.clean_gain
    if clean is None or clean < predictable:
        return False
    return augmentation.gain < kept * clean and augmentation.sorted_gain < sorted_kept * kept * clean


def _finding(says: str, severity: Severity, augmentation: Augmentation, limit: float, exhibit: Bars) -> Finding:
    return Finding(
        says,
        where="loader",
        severity=severity,
        evidence={
            "recognized": augmentation.recognized,
            "chance": augmentation.chance,
            "p": augmentation.p,
            "gain on clean samples": augmentation.clean_gain,
            "gain on augmented samples": augmentation.gain,
            "threshold": limit,
            "source": "37 reasons, 13; binomial test against chance, cross-validation of simple models",
        },
        remedies=(
            Remedy("Print a batch as the network receives it.", "print(next(iter(loader)))"),
            Remedy("Weaken the augmentation until a person can tell the label again."),
        ),
        exhibit=exhibit,
    )
