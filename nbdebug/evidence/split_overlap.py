"""Find samples of one split in another: by their index, by their content, or almost the same."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats
from sklearn.neighbors import NearestNeighbors

from nbdebug.core.control import Control
from nbdebug.evidence.sample_table import SampleTable
from nbdebug.setup import Feed, Setup
from nbdebug.setup.dataset_origin import origin_of, same_store
from nbdebug.setup.feature_rows import columns_of, digests_of, joined
from nbdebug.setup.sample_dataset import drawn

__all__ = [
    "HELD_OUT",
    "POOL",
    "SHOWN",
    "Digests",
    "improbable_samples",
    "near_duplicates",
    "repeats_at_random",
    "shared_indices",
    "split_digests",
]

POOL, HELD_OUT = 20_000, 5_000  # samples whose digests are compared
RICH = 100.0  # bits: content as improbable as this does not come twice by accident
NEAR = 0.13  # cleanlab: near duplicates are closer than 0.13 × the median distance of neighbors
FEWEST_GROUPS = 20  # of equal samples, before their sizes say anything
LARGEST_GROUP = 12  # whose number is compared by itself
BY_CHANCE = 1e-3  # of a chi-square test
SHOWN = 20
Places = dict[bytes, list[int]]


@dataclass(frozen=True)
class Digests:
    """The digests of the samples of one split, and where each was seen."""

    places: Places
    count: int


def split_digests(
    setup: Setup, feed: Feed, table: SampleTable, control: Control, start: float, width: float
) -> Digests:
    """Digest as many samples as time allows; those of the table are enough where there are no more to be had."""
    places: Places = defaultdict(list)
    if table.is_all:
        for index, digest in zip(table.indices, table.digests, strict=True):
            places[digest].append(index)
        return Digests(places, len(table))
    seen, count = 0, POOL if table.name == "loader" else HELD_OUT

    def tell(fraction: float) -> None:
        control.progress(start + width * fraction, f"comparing samples of {feed.name}")

    for part in drawn(feed, setup.wrap, count=count, control=control, tell=tell):
        for index, digest in zip(part.indices, digests_of(part.batch), strict=True):
            places[digest].append(index)
        seen += len(part.indices)
    return Digests(places, seen)


def shared_indices(train: Feed, held: Feed) -> tuple[int | None, int, tuple[tuple[int, int], ...]]:
    """Count the samples of one data set that both loaders draw, by their indices in it."""
    mine, theirs = origin_of(train), origin_of(held)
    if mine is None or theirs is None or not same_store(mine[0], theirs[0]):
        return None, 0, ()
    both = np.intersect1d(mine[1], theirs[1])
    return len(both), len(theirs[1]), tuple((int(i), int(i)) for i in both[:SHOWN])


def improbable_samples(setup: Setup, feed: Feed, indices: list[int], clean: SampleTable, looks: int = 64) -> int:
    """Estimate how many of these samples hold content that is too improbable to come twice by accident.

    The improbability of a sample is that of its values, column by column, among the training samples. Columns that
    say the same, such as equal inputs or the counts of token ids, count once.
    """
    if not indices or feed.dataset is None or feed.gives_whole_batches:
        return 0
    looked = indices[:: max(1, len(indices) // looks)][:looks]
    rows = joined([columns_of(setup.wrap(feed.collate([feed.dataset[i]]))) for i in looked])[0]
    if rows.shape[1] != clean.rows.shape[1]:
        return 0
    bits = np.zeros(len(rows))
    said_once = np.unique(clean.rows, axis=1, return_index=True)[1]
    for column in (c for c in said_once if "(counts)" not in clean.columns[c]):
        counts = Counter(clean.rows[:, column].tolist())
        bits -= np.log2([max(counts[v], 1) / len(clean) for v in rows[:, column].tolist()])
    return round(float((bits >= RICH).mean()) * len(indices))


def repeats_at_random(places: Places) -> bool:
    """Whether samples repeat as often as draws with replacement from one pool do, all of them alike.

    Then another split of such draws holds many of the same samples, however improbable each of them looks. Copies of
    some of the samples, as by oversampling, leave more single ones and more large groups than such draws.
    """
    groups = np.asarray([len(where) for where in places.values()])
    if (groups > 1).sum() < FEWEST_GROUPS:
        return False
    rate = float(optimize.brentq(lambda r: r / -np.expm1(-r) - groups.mean(), 1e-9, 1e9))  # of a truncated Poisson
    sizes = np.arange(1, LARGEST_GROUP + 1)
    expected = stats.poisson.pmf(sizes, rate) / -np.expm1(-rate) * len(groups)
    seen = np.asarray([(groups == size).sum() for size in sizes])
    apart = expected >= 5  # the usual condition of a chi-square test; all other sizes are one cell
    cells = [np.append(each[apart], len(groups) - each[apart].sum()) for each in (seen, expected)]
    distance = float(((cells[0] - cells[1]) ** 2 / np.maximum(cells[1], 1.0)).sum())
    return bool(stats.chi2.sf(distance, max(1, len(cells[0]) - 2)) > BY_CHANCE)


def near_duplicates(clean: SampleTable, table: SampleTable) -> tuple[int, int, tuple[tuple[int, int], ...]]:
    """Count rows that are almost equal to a training row, by the distances that training rows keep from each other.

    Exact copies are left out: they are counted elsewhere.
    """
    if len(clean) < 50 or clean.columns != table.columns:
        return 0, 0, ()
    scale = clean.rows.std(0)
    if not (scale > 0).any():
        return 0, 0, ()
    scale = np.maximum(scale, 0.3 * np.median(scale[scale > 0]))  # a column that hardly varies must not drown the rest
    train, other = clean.rows / scale, table.rows / scale
    index = NearestNeighbors(n_neighbors=2).fit(train)
    inner = index.kneighbors(train)[0][:, 1]
    usual = float(np.median(inner[inner > 1e-9])) if (inner > 1e-9).any() else 0.0
    distance, nearest = index.kneighbors(other)
    column = 1 if table is clean else 0
    found = (distance[:, column] < NEAR * usual) & (distance[:, column] > 1e-6 * usual)
    pairs = [(table.indices[i], clean.indices[int(nearest[i, column])]) for i in np.flatnonzero(found)[:SHOWN]]
    return int(found.sum()), len(table), tuple(pairs)
