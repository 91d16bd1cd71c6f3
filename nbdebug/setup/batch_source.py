"""Draw batches and samples without ever iterating the user's own loader.

A DataLoader is drawn from through a shallow copy of it with no workers, whose data set, samplers and generators
are copies; so neither a live iterator with persistent workers nor a generator of the user's moves on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, SequentialSampler

from nbdebug.setup.loader_adapters import opener
from nbdebug.setup.loader_copy import copied_loader, drawn_anew
from nbdebug.setup.object_graph import copy_cost
from nbdebug.setup.sample_store import KEPT_BYTES, SampleStore

__all__ = ["Feed"]

GLANCE = 2  # batches of a first look, which is timed


class Feed:
    """A source of batches made from what the user calls a loader."""

    def __init__(self, loader: Any, name: str = "loader") -> None:
        self.loader, self.name = loader, name
        self.notes: list[str] = []
        self._open: Callable[[], Iterable[Any]]
        self._replica: Any = None
        self._samples = SampleStore()
        self._orders: dict[int, torch.Tensor] = {}
        self._first: list[Any] = []
        self._held = 0
        self._rest: Iterator[Any] | None = None
        if isinstance(loader, DataLoader):
            self._open = self._replicate
        else:
            self._open = opener(loader, self.name, self.notes)

    def __iter__(self) -> Iterator[Any]:
        """Draw batches from the beginning, in the loader's own order."""
        return iter(self._open())

    def take(self, count: int) -> list[Any]:
        """Draw the first so many batches."""
        return list(islice(self, count))

    def shared(self, count: int, poll: Callable[[], None] = lambda: None) -> Iterator[Any]:
        """Yield the first batches of one pass that all experiments share, so that none is drawn twice.

        They are as the loader gave them: whoever changes one has to copy it. Beyond so many bytes they are not kept.
        """
        if count > len(self._first) and len(self._first) <= GLANCE:  # so few are drawn anew, in one go with the rest
            self._first, self._rest = [], None
        is_kept = True
        try:
            for number in range(count):
                if number < len(self._first):
                    yield self._first[number]
                    continue
                poll()
                self._rest = self._rest or islice(self, number, None)
                raw = next(self._rest)
                is_kept = self._held < KEPT_BYTES
                if is_kept:
                    self._first.append(raw)
                    self._held += copy_cost(raw).size
                yield raw
        except StopIteration:
            is_kept = False
        except BaseException:
            is_kept = False
            raise
        finally:
            if not is_kept:
                self._rest = None

    def sample(self, index: Any) -> Any:
        """Read a sample of the data set by its index; one that was read before is a copy of what was read then."""
        return self._samples.read(self.dataset, index)

    def shuffled(self, total: int) -> torch.Tensor:
        """Return a random order of the samples: for one seed always the same, so that experiments read the same."""
        order = torch.randperm(total)  # always drawn, so that what is drawn after it does not depend on who was first
        return self._orders.setdefault(torch.initial_seed(), order)

    @property
    def live_parts(self) -> tuple[Any, ...]:
        """The user's own objects that drawing may touch, so that their generators can be guarded."""
        return (self.loader,)

    @property
    def dataset(self) -> Any:
        """The data set that samples are read from by index, or None where there is none."""
        if not isinstance(self.loader, DataLoader) or isinstance(self.loader.dataset, IterableDataset):
            return None
        dataset = self._kept.dataset
        return dataset if hasattr(dataset, "__getitem__") else None

    @property
    def total(self) -> int | None:
        """The number of samples in the data set, where that can be known."""
        if isinstance(self.loader, DataLoader):
            return length_of(self._kept.dataset)
        return None

    @property
    def batch_count(self) -> int | None:
        """The number of batches in one pass, where that can be known."""
        return length_of(
            self._kept if isinstance(self.loader, DataLoader) else self.loader
        )  # len() may write to a loader

    @property
    def is_one_batch(self) -> bool:
        """Whether this is a single batch that nothing collated, such as one graph; its rows may be no samples."""
        is_plain = not isinstance(self.loader, DataLoader) or self.gives_whole_batches
        return is_plain and self.batch_count == 1

    def collate(self, samples: list[Any]) -> Any:
        """Put samples together as the loader does."""
        replica = self._kept
        if self.gives_whole_batches:
            return samples[0] if len(samples) == 1 else torch.utils.data.default_collate(samples)
        return replica.collate_fn(samples)

    @property
    def gives_whole_batches(self) -> bool:
        """Whether the data set gives batches by itself, so that nothing is collated."""
        loader = self.loader
        return isinstance(loader, DataLoader) and loader.batch_size is None and loader.batch_sampler is None

    @property
    def within(self) -> list[int] | None:
        """The indices that the loader can draw where a sampler chooses among them; None means all of them."""
        if self.dataset is None or self.draws_everything:
            return None
        return sorted(set(self.order() or ()))

    @property
    def draws_everything(self) -> bool:
        """Whether a sampler of the usual kind goes over the whole data set, so that its order need not be laid out."""
        sampler = self._kept.sampler
        chosen = getattr(self._kept.batch_sampler, "sampler", None) is not sampler and self._kept.batch_sampler
        return type(sampler) in (RandomSampler, SequentialSampler) and not chosen

    def order(self, limit: int = 100_000) -> list[int] | None:
        """Return the indices that one pass draws, in order, without reading a sample."""
        orders = self.orders(1, limit)
        return orders[0] if orders is not None else None

    def orders(self, passes: int, limit: int = 100_000) -> list[list[int]] | None:
        """Return the indices that each of several passes after one another draws; generators move on in between."""
        if self.dataset is None:
            return None
        replica = self._replicate()
        return [list(islice(_flat(_index_batches(replica)), limit)) for _ in range(passes)]

    def plan(self) -> Iterator[list[Any]] | None:
        """Return the indices of each batch of one pass, in order, without reading a sample."""
        return _index_batches(self._replicate()) if self.dataset is not None else None

    @property
    def _kept(self) -> Any:
        """The one copy whose data set is read; its sampler is never moved on."""
        if self._replica is None:
            self._replica = copied_loader(self.loader, self.notes, self.name)
        return self._replica

    def _replicate(self) -> Any:
        """Copy the loader for one pass; the copy has no workers and shares no generator."""
        return drawn_anew(self._kept)


def _index_batches(loader: Any) -> Iterator[list[Any]]:
    if loader.batch_sampler is not None:
        yield from loader.batch_sampler
    else:  # the data set gives whole batches, each for one index, which may itself be a list
        yield from ([index] for index in loader.sampler)


def _flat(batches: Iterator[list[Any]]) -> Iterator[int]:
    for batch in batches:
        for index in batch:
            if isinstance(index, (list, tuple)):
                yield from map(int, index)
            else:
                yield int(index)


def length_of(value: Any) -> int | None:
    try:
        return len(value)
    except (TypeError, NotImplementedError):
        return None
