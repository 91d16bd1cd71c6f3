"""Which samples does a pass over the loader draw?"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from torch.utils.data import Subset

from nbdebug.errors import NotApplicable
from nbdebug.evidence import EpochOrder
from nbdebug.registry import probe
from nbdebug.subject import Feed, Subject
from nbdebug.subject.sampling import ORDER_AT_MOST

__all__ = ["epoch_order"]


@probe
def epoch_order(subject: Subject) -> EpochOrder:
    """Compare the sample order of two epochs without loading samples."""
    feed, total = subject.feed, subject.feed.total
    if feed.dataset is None or not total:
        raise NotApplicable("the samples have no index, so their order is unknown")
    if feed.gives_whole_batches:
        raise NotApplicable("the dataset returns whole batches, so the samples have no index")
    if total > ORDER_AT_MOST:
        raise NotApplicable(f"the order is not recorded for more than {ORDER_AT_MOST} samples")
    first, second = feed.orders(2, min(4 * total, ORDER_AT_MOST)) or ([], [])
    loader, drawn = feed.loader, set(first)
    sampler = getattr(loader.batch_sampler, "sampler", None) or loader.sampler
    return EpochOrder(
        total=total,
        drawn=len(first),
        distinct=len(drawn),
        distinct_in_two=len(drawn.union(second)),
        same_order=first == second,
        ascending=all(a < b for a, b in pairwise(first)),
        elsewhere=len(_drawn_elsewhere(subject) - drawn),
        batch_size=loader.batch_size,
        last_batch=len(first) % loader.batch_size if loader.batch_size else 0,
        drop_last=bool(loader.drop_last),
        sampler=type(sampler).__name__,
        replicas=int(getattr(sampler, "num_replicas", 1) or 1),
        subset_of=_whole(loader.dataset),
    )


def _drawn_elsewhere(subject: Subject) -> set[int]:
    """Give the samples of the same data set that the other loaders draw."""
    found: set[int] = set()
    for feed in subject.feeds[1:]:
        if feed.dataset is not None and _same_data(feed, subject.feed):
            found.update(feed.order(ORDER_AT_MOST) or ())
    return found


def _same_data(one: Feed, other: Feed) -> bool:
    return one.loader.dataset is other.loader.dataset


def _whole(dataset: Any) -> int | None:
    """Give the size of the data set that a subset was taken from."""
    if not isinstance(dataset, Subset):
        return None
    while isinstance(dataset, Subset):
        dataset = dataset.dataset
    try:
        return len(dataset)
    except TypeError:
        return None
