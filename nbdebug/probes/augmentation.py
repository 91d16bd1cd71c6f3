"""Read some samples many times, as augmentation would show them over many epochs."""

from __future__ import annotations

import numpy as np
from scipy.stats import beta, binom
from sklearn.metrics import pairwise_distances

from nbdebug.control import Control
from nbdebug.errors import NotApplicable, OutOfTime
from nbdebug.evidence import Augmentation, Rereading, Samples
from nbdebug.registry import probe
from nbdebug.subject import Subject
from nbdebug.subject.drawing import fresh_reader
from nbdebug.subject.rows import Columns, columns_of, joined

__all__ = ["augmentation"]

SAMPLES, READINGS = 24, 16
SECONDS = 12.0


@probe
def augmentation(subject: Subject, samples: Samples, rereading: Rereading, control: Control) -> Augmentation:
    """Read some samples many times and see whether each can still be told from the others."""
    if not rereading.random:
        raise NotApplicable("reading a sample again gives the same values: there is no random augmentation")
    if rereading.target_random:
        raise NotApplicable("a sample gets another target at every reading: each one is made anew")
    if samples.train.kind == "none":
        raise NotApplicable("there is no target that augmentation could hide")
    reader = fresh_reader(subject.feed, subject.wrap)
    assert reader is not None  # it was there for the rereading
    chosen = _spread(samples)
    parts: list[Columns] = []
    try:
        with control.limit(SECONDS):
            for draw in range(READINGS):
                for index in chosen:
                    control.progress(len(parts) / (len(chosen) * READINGS), "reading augmented samples")
                    parts.append(columns_of(reader.read(index, 1 + draw * 100_003 + index)))
    except OutOfTime:
        if control.is_over or len(parts) < 4 * len(chosen):
            raise
    rows = joined(parts)[0][: len(parts) // len(chosen) * len(chosen)]
    return _measure(rows, np.tile(np.arange(len(chosen)), len(rows) // len(chosen)))


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
    hits = np.maximum(_by_nearest(rows, owner).sum(), _by_mean(rows, owner).sum())
    size, chance = len(owner), 1 / count
    upper = float(beta.ppf(0.999, hits + 1, max(size - hits, 1e-9)))
    p = min(1.0, 2 * float(binom.sf(hits - 1, size, chance)))
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
