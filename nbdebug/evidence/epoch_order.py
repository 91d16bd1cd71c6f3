"""Which samples does a pass over the loader draw?"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from torch.utils.data import Subset

from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.setup import Feed, Setup
from nbdebug.setup.read_samples import ORDER_AT_MOST

__all__ = ["EpochOrder", "epoch_order"]


@dataclass(frozen=True)
class EpochOrder:
    """Which samples one pass over the loader draws, found without reading any.

    `again` counts the samples that a second pass draws as well; `same_order` says that both passes are alike.
    `elsewhere` counts further samples of the same data set that the validation or test loader draws.
    """

    total: int
    drawn: int
    distinct: int
    distinct_in_two: int
    same_order: bool
    ascending: bool
    elsewhere: int
    batch_size: int | None
    last_batch: int
    drop_last: bool
    sampler: str
    replicas: int = 1
    subset_of: int | None = None


@probe
def epoch_order(setup: Setup) -> EpochOrder:
    """Compare the sample order of two epochs without loading samples."""
    feed, total = setup.feed, setup.feed.total
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
        elsewhere=len(_drawn_elsewhere(setup) - drawn),
        batch_size=loader.batch_size,
        last_batch=len(first) % loader.batch_size if loader.batch_size else 0,
        drop_last=bool(loader.drop_last),
        sampler=type(sampler).__name__,
        replicas=int(getattr(sampler, "num_replicas", 1) or 1),
        subset_of=_whole(loader.dataset),
    )


def _drawn_elsewhere(setup: Setup) -> set[int]:
    """Return the samples of the same data set that the other loaders draw."""
    found: set[int] = set()
    for feed in setup.feeds[1:]:
        if feed.dataset is not None and _same_data(feed, setup.feed):
            found.update(feed.order(ORDER_AT_MOST) or ())
    return found


def _same_data(one: Feed, other: Feed) -> bool:
    return one.loader.dataset is other.loader.dataset


def _whole(dataset: Any) -> int | None:
    """Return the size of the data set that a subset was taken from."""
    if not isinstance(dataset, Subset):
        return None
    while isinstance(dataset, Subset):
        dataset = dataset.dataset
    try:
        return len(dataset)
    except TypeError:
        return None
