"""Read some samples many times, as augmentation would show them over many epochs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.stats import beta, binom
from sklearn.metrics import pairwise_distances

from nbdebug.control import Control
from nbdebug.errors import NotApplicable, OutOfTime
from nbdebug.evidence import Augmentation, Rereading, Samples, Table
from nbdebug.probes.baselines import class_scores
from nbdebug.registry import probe
from nbdebug.subject import Subject
from nbdebug.subject.drawing import fresh_reader
from nbdebug.subject.rows import Columns, columns_of, joined

__all__ = ["augmentation"]

SAMPLES, READINGS = 24, 16
SECONDS = 12.0
LABELLED, FEWEST = 400, 60  # samples whose class simple models predict


@probe(quick=False)
def augmentation(subject: Subject, samples: Samples, rereading: Rereading, control: Control) -> Augmentation:
    """Load some samples repeatedly and test whether they stay distinguishable."""
    if not rereading.random:
        raise NotApplicable("reading a sample again returns the same values: there is no random augmentation")
    if rereading.target_random:
        raise NotApplicable("a sample gets a new target at every read: it is generated on the fly")
    if samples.train.kind == "none":
        raise NotApplicable("there is no target")
    reader = fresh_reader(subject.feed, subject.wrap)
    assert reader is not None  # it was there for the rereading
    chosen = _spread(samples)
    parts: list[Columns] = []
    try:
        with control.limit(SECONDS):
            for draw in range(READINGS):
                for index in chosen:
                    control.progress(len(parts) / (len(chosen) * READINGS), "loading augmented samples")
                    parts.append(columns_of(reader.read(index, 1 + draw * 100_003 + index)))
    except OutOfTime:
        if control.is_over or len(parts) < 4 * len(chosen):
            raise
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


def _gain(table: Table, size: int, view: Callable[[np.ndarray], np.ndarray]) -> float:
    """Give how far simple models get on the way from chance to perfect."""
    assert table.labels is not None
    labels = table.labels[:size]
    kept = np.bincount(labels)[labels] >= 4
    rows, labels = view(table.rows[:size])[kept], np.unique(labels[kept], return_inverse=True)[1]
    if len(rows) < FEWEST or len(np.unique(labels)) < 2:
        return 0.0
    chance = float(np.bincount(labels).max() / len(labels))
    scores = class_scores(rows, labels, lambda _: None).values()
    return (max(float((p.argmax(1) == labels).mean()) for p in scores) - chance) / (1 - chance)
