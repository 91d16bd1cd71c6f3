"""Read samples one by one and put them together as the loader does, so that a slow or a failing one can be told.

Everything stops at a deadline with what was read so far; an exception of the user's data set is kept, and the samples
around it are read all the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

from nbdebug.errors import NbdebugError
from nbdebug.setup.batch import Batch
from nbdebug.setup.batch_source import Feed
from nbdebug.setup.user_code import user_code

__all__ = ["Draw", "Failure", "at_random", "in_order", "over_all"]

ORDER_AT_MOST = 2_000_000  # indices of one pass that are looked at where a sampler chooses

Wrap = Callable[[Any], Batch]
Poll = Callable[[], None]


@dataclass(frozen=True)
class Failure:
    """A sample that could not be had: its index, what was being done (reading or collating), and the error."""

    index: int
    doing: str
    error: str


@dataclass(frozen=True)
class Draw:
    """Some samples put together as the loader does it, with their places in the data set, or why there are none."""

    batch: Batch | None
    indices: tuple[int, ...] = ()
    failures: tuple[Failure, ...] = ()
    late: bool = False


def in_order(feed: Feed, wrap: Wrap, until: float, poll: Poll) -> Iterator[Draw]:
    """Return batches in the loader's own order until the deadline."""
    plan = feed.plan()
    if plan is None:
        yield from _streamed(feed, wrap, until, poll)
    else:
        yield from _planned(feed, wrap, plan, until, poll)


def at_random(feed: Feed, wrap: Wrap, until: float, poll: Poll) -> Iterator[Draw] | None:
    """Return batches of samples chosen at random among those that one pass draws; None where there is no index."""
    if isinstance(feed.loader, (list, tuple)) and not isinstance(feed.loader, torch.Tensor):
        raws = list(feed)
        chosen = [raws[i] for i in torch.randperm(len(raws)).tolist()]
        return _streamed(chosen, wrap, until, poll)
    total = feed.total
    if feed.dataset is None or not total:
        return None
    if feed.gives_whole_batches:
        whole = list(islice(feed.plan() or (), ORDER_AT_MOST))
        return _planned(feed, wrap, (whole[i] for i in torch.randperm(len(whole)).tolist()), until, poll)
    size = max(1, min(feed.loader.batch_size or 64, 256))
    return _planned(feed, wrap, _chunks(_shuffled(feed, total), size), until, poll)


def over_all(feed: Feed, wrap: Wrap, until: float, poll: Poll) -> Iterator[Draw]:
    """Return batches from all over the data: at random where there is an index, else in the loader's own order."""
    chosen = at_random(feed, wrap, until, poll)
    return chosen if chosen is not None else in_order(feed, wrap, until, poll)


def _shuffled(feed: Feed, total: int) -> torch.Tensor:
    """Put the indices of one pass into a random order; what a sampler draws twice is in it twice."""
    if feed.draws_everything:
        return feed.shuffled(total) if total <= 50_000_000 else torch.randint(0, total, (100_000,))
    order = torch.tensor(feed.order(ORDER_AT_MOST) or [], dtype=torch.int64)
    return order[torch.randperm(len(order))]


def _chunks(order: torch.Tensor, size: int) -> Iterator[list[int]]:
    for start in range(0, len(order), size):
        yield order[start : start + size].tolist()


def _planned(feed: Feed, wrap: Wrap, plan: Iterable[list[Any]], until: float, poll: Poll) -> Iterator[Draw]:
    for indices in plan:
        samples, kept, failures = [], [], []
        for index in indices:
            poll()
            if time.monotonic() > until:
                break
            with user_code(passing=()) as tried:
                samples.append(feed.sample(index))
                kept.append(index)
            if tried.failure:
                failures.append(Failure(_place(index), "reading", tried.failure))
        late = time.monotonic() > until
        yield _together(feed, wrap, samples, kept, failures, late)
        if late:
            return


def _together(feed: Feed, wrap: Wrap, samples: list[Any], kept: list[Any], failures: list[Failure], late: bool) -> Draw:
    if not samples:
        return Draw(None, failures=tuple(failures), late=late)
    with user_code() as tried:
        batch = wrap(feed.collate(samples))
    if tried.failure:
        failed = Failure(_place(kept[0]), "collating", tried.failure)
        return Draw(None, failures=(*failures, failed), late=late)
    places = kept[0] if len(kept) == 1 and isinstance(kept[0], (list, tuple)) else kept
    indices = places if batch.size == len(places) else [_place(places[0])] * batch.size
    return Draw(batch, tuple(int(i) for i in indices), tuple(failures), late)


def _place(index: Any) -> int:
    return int(index[0]) if isinstance(index, (list, tuple)) else int(index)


def _streamed(raws: Iterable[Any], wrap: Wrap, until: float, poll: Poll) -> Iterator[Draw]:
    source, place = iter(raws), 0
    while True:
        poll()
        try:
            raw = next(source)
        except StopIteration:
            return
        except NbdebugError:
            raise
        except Exception as error:
            yield Draw(None, failures=(Failure(place, "reading", f"{type(error).__name__}: {error}"),))
            return
        batch = wrap(raw)
        yield Draw(batch, tuple(range(place, place + batch.size)))
        place += batch.size
        if time.monotonic() > until:
            return
