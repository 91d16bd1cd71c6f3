"""Look for training samples in the held-out splits."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np
from sklearn.neighbors import NearestNeighbors

from nbdebug.control import Control
from nbdebug.errors import NotApplicable
from nbdebug.evidence import Samples, SplitPair, Splits, Table
from nbdebug.registry import probe
from nbdebug.subject import Feed, Subject
from nbdebug.subject.drawing import drawn
from nbdebug.subject.origin import origin_of, same_store, without_augmentation
from nbdebug.subject.rows import columns_of, digests_of, joined

__all__ = ["splits"]

POOL, HELD_OUT = 20_000, 5_000  # samples whose digests are compared
SECONDS = 8.0
RICH = 100.0  # bits: content as improbable as this does not come twice by accident
NEAR = 0.13  # cleanlab: near duplicates are closer than 0.13 × the median distance of neighbours
SHOWN = 20

Places = dict[bytes, list[int]]


@dataclass(frozen=True)
class _Digests:
    """The digests of the samples of one split, and where each was seen."""

    places: Places
    count: int


@probe
def splits(subject: Subject, samples: Samples, control: Control) -> Splits:
    """Search training and held-out data for duplicates and near-duplicates."""
    feeds = [feed for feed in (subject.val_feed, subject.test_feed) if feed is not None]
    if not feeds:
        raise NotApplicable("there is no validation or test loader to compare with")
    source, blind = subject.feed, ""
    if samples.random:
        plain = without_augmentation(subject.feed, feeds[0])
        source, blind = plain or source, "" if plain else "training samples are augmented at random"
    train = _digests(subject, source, samples.clean, control, 0.0, 0.5)
    pairs = []
    for number, feed in enumerate(feeds):
        table = next(t for t in samples.others if t.name == feed.name)
        held = _digests(subject, feed, table, control, 0.5 + 0.4 * number / len(feeds), 0.4 / len(feeds))
        pairs.append(_compare(subject, feed, train, held, samples.clean, table, blind))
    return Splits(tuple(pairs))


def _digests(subject: Subject, feed: Feed, table: Table, control: Control, start: float, width: float) -> _Digests:
    """Digest as many samples as time allows; those of the table are enough where there are no more to be had."""
    places: Places = defaultdict(list)
    if table.is_all:
        for index, digest in zip(table.indices, table.digests, strict=True):
            places[digest].append(index)
        return _Digests(places, len(table))
    seen, count = 0, POOL if table.name == "loader" else HELD_OUT

    def tell(fraction: float) -> None:
        control.progress(start + width * fraction, f"comparing samples of {feed.name}")

    for part in drawn(feed, subject.wrap, count=count, seconds=min(SECONDS, subject.sweep_seconds), tell=tell):
        for index, digest in zip(part.indices, digests_of(part.batch), strict=True):
            places[digest].append(index)
        seen += len(part.indices)
    return _Digests(places, seen)


def _compare(
    subject: Subject, feed: Feed, train: _Digests, held: _Digests, clean: Table, table: Table, blind: str
) -> SplitPair:
    matches = [(i, train.places[d][0]) for d, places in held.places.items() if d in train.places for i in places]
    repeated = sum(len(places) for places in train.places.values() if len(places) > 1)
    shared, shared_of, same = _shared(subject.feed, feed)
    near, near_of, near_pairs = _near(clean, table)
    inner_near, inner_of, _ = _near(clean, clean)
    return SplitPair(
        name=feed.name,
        compared=held.count,
        pool=train.count,
        pool_total=subject.feed.total,
        exact=len(matches),
        beyond_chance=_rich(subject, feed, [i for i, _ in matches], clean),
        inner=repeated,
        inner_compared=train.count,
        near=near,
        near_compared=near_of,
        inner_near=inner_near,
        inner_near_compared=inner_of,
        shared=shared,
        shared_of=shared_of,
        examples=tuple(matches[:SHOWN]) or same,
        near_examples=near_pairs,
        blind=blind,
    )


def _shared(train: Feed, held: Feed) -> tuple[int | None, int, tuple[tuple[int, int], ...]]:
    """Count the samples of one data set that both loaders draw, by their indices in it."""
    mine, theirs = origin_of(train), origin_of(held)
    if mine is None or theirs is None or not same_store(mine[0], theirs[0]):
        return None, 0, ()
    both = np.intersect1d(mine[1], theirs[1])
    return len(both), len(theirs[1]), tuple((int(i), int(i)) for i in both[:SHOWN])


def _rich(subject: Subject, feed: Feed, indices: list[int], clean: Table, looks: int = 64) -> int:
    """Estimate how many of these samples hold content that is too improbable to come twice by accident.

    The improbability of a sample is that of its values, column by column, among the training samples.
    """
    if not indices or feed.dataset is None or feed.gives_whole_batches:
        return 0
    looked = indices[:: max(1, len(indices) // looks)][:looks]
    rows = joined([columns_of(subject.wrap(feed.collate([feed.dataset[i]]))) for i in looked])[0]
    if rows.shape[1] != clean.rows.shape[1]:
        return 0
    bits = np.zeros(len(rows))
    for column in range(rows.shape[1]):
        counts = Counter(clean.rows[:, column].tolist())
        bits -= np.log2([max(counts[v], 1) / len(clean) for v in rows[:, column].tolist()])
    return round(float((bits >= RICH).mean()) * len(indices))


def _near(clean: Table, table: Table) -> tuple[int, int, tuple[tuple[int, int], ...]]:
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
