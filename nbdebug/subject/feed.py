"""Draw batches and samples without ever iterating the user's own loader.

A DataLoader is drawn from through a shallow copy of it with no workers, whose data set, samplers and generators
are copies; so neither a live iterator with persistent workers nor a generator of the user's moves on.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from nbdebug.errors import BadInput
from nbdebug.subject.holdings import copy_generator, generators_in, holdings_of
from nbdebug.subject.nest import leaves

__all__ = ["Feed"]

COPY_AT_MOST_BYTES = 256_000_000  # a larger data set is read where it is, and the report says so
COPY_AT_MOST_OBJECTS = 50_000  # deepcopy takes about 5 microseconds for each


class Feed:
    """A source of batches made from what the user calls a loader."""

    def __init__(self, loader: Any, name: str = "loader") -> None:
        self.loader, self.name = loader, name
        self.notes: list[str] = []
        self._open: Callable[[], Iterable[Any]]
        self._replica: Any = None
        if isinstance(loader, DataLoader):
            self._open = self._replicate
        else:
            self._open = self._opener(loader)

    def __iter__(self) -> Iterator[Any]:
        """Draw batches from the beginning, in the loader's own order."""
        return iter(self._open())

    def take(self, count: int) -> list[Any]:
        """Draw the first so many batches."""
        return list(islice(self, count))

    @property
    def live_parts(self) -> tuple[Any, ...]:
        """The user's own objects that drawing may touch, so that their generators can be guarded."""
        return (self.loader,)

    @property
    def dataset(self) -> Any:
        """The data set that samples are read from by index, or None where there is none."""
        if not isinstance(self.loader, DataLoader) or isinstance(self.loader.dataset, IterableDataset):
            return None
        dataset = self._replicate().dataset
        return dataset if hasattr(dataset, "__getitem__") else None

    @property
    def total(self) -> int | None:
        """The number of samples in the data set, where that can be known."""
        if isinstance(self.loader, DataLoader):
            return _length(self.loader.dataset)
        return None

    @property
    def batch_count(self) -> int | None:
        """The number of batches in one pass, where that can be known."""
        return _length(self.loader)

    def collate(self, samples: list[Any]) -> Any:
        """Put samples together as the loader does."""
        replica = self._replicate()
        if replica.batch_size is None and replica.batch_sampler is None:
            return samples[0] if len(samples) == 1 else torch.utils.data.default_collate(samples)
        return replica.collate_fn(samples)

    def order(self, limit: int = 100_000) -> list[int] | None:
        """Give the indices that one pass draws, in order, without reading a sample."""
        if self.dataset is None:
            return None
        replica = self._replicate()
        if replica.batch_sampler is not None:
            return [int(i) for i in islice((i for batch in replica.batch_sampler for i in batch), limit)]
        return [int(i) for i in islice(iter(replica.sampler), limit)]

    def _replicate(self) -> Any:
        """Copy the loader with what it draws from; the copy has no workers and shares no generator."""
        if self._replica is None:
            self._replica = self._first_replica()
        return _with_parts(self._replica, self._drawing_parts(self._replica))

    def _first_replica(self) -> Any:
        loader = self.loader
        dataset = _copied(loader.dataset, self.notes, self.name)
        memo = {id(loader.dataset): dataset, **{id(g): copy_generator(g) for g in generators_in(loader)}}
        return _with_parts(loader, self._drawing_parts(loader, memo) | {"dataset": dataset})

    def _drawing_parts(self, loader: Any, memo: dict[int, Any] | None = None) -> dict[str, Any]:
        """Copy sampler, batch sampler, generator and collate together, so that what they share stays shared."""
        memo = memo if memo is not None else {id(loader.dataset): loader.dataset}
        names = [n for n in ("sampler", "batch_sampler", "generator", "collate_fn") if n in loader.__dict__]
        live = [loader.__dict__[name] for name in names]
        memo |= {id(g): copy_generator(g) for g in generators_in(*live) if id(g) not in memo}
        try:
            return dict(zip(names, copy.deepcopy(live, memo), strict=True))
        except Exception as error:
            self.notes.append(f"The sampler of {self.name} cannot be copied ({error}); it is used where it is.")
            return {}

    def _opener(self, loader: Any) -> Callable[[], Iterable[Any]]:
        """Find a way to read something that is not a DataLoader from its beginning, again and again."""
        if loader is None:
            raise _bad(self.name, "it is None", f"pass a DataLoader as {self.name}")
        if isinstance(loader, torch.Tensor):
            raise _bad(self.name, f"it is a tensor of shape {tuple(loader.shape)}", f"pass [({self.name}, targets)]")
        if isinstance(loader, (str, bytes)):
            raise _bad(self.name, f"it is the text {str(loader)[:40]!r}", "pass the loader itself, not its name")
        if isinstance(loader, Dataset):
            raise _bad(
                self.name,
                f"it is a {type(loader).__name__}, a data set and not a loader",
                f"wrap it: DataLoader({self.name}, batch_size=32, shuffle=True)",
            )
        if isinstance(loader, tuple) and loader and all(isinstance(x, torch.Tensor) for _, x in leaves(loader)):
            self.notes.append(f"{self.name} is one batch; everything that is said about the data holds for it alone.")
            return lambda: [loader]
        if isinstance(loader, (list, tuple)):
            return lambda: loader
        if isinstance(loader, dict):
            raise _bad(
                self.name, "it is a dict", "if it is one batch, pass [batch]; if it holds loaders, pass one of them"
            )
        if hasattr(loader, "__iter__"):
            return self._reiterable(loader)
        if callable(loader):
            return lambda: _called(loader, self.name)
        raise _bad(self.name, f"it is a {type(loader).__name__}, which cannot be iterated", "pass a DataLoader")

    def _reiterable(self, loader: Any) -> Callable[[], Iterable[Any]]:
        try:
            replica = copy.deepcopy(loader)
        except Exception:
            replica = None
        if replica is not None and not hasattr(loader, "__next__"):
            return lambda: copy.deepcopy(replica)
        if hasattr(loader, "__next__"):
            raise _bad(
                self.name,
                f"it is a {type(loader).__name__}, which can be read only once",
                f"pass a function that makes a new one ({self.name}=lambda: make_batches()) or a list of a few batches",
            )
        self.notes.append(f"{self.name} ({type(loader).__name__}) cannot be copied; it is iterated anew where it is.")
        return lambda: loader


def _copied(dataset: Any, notes: list[str], name: str) -> Any:
    held = holdings_of(dataset)
    if held.size > COPY_AT_MOST_BYTES or held.objects > COPY_AT_MOST_OBJECTS:
        notes.append(f"The data set of {name} is too large to copy ({held}); its samples are read where they are.")
        return dataset
    try:
        return copy.deepcopy(dataset, {id(g): copy_generator(g) for g in generators_in(dataset)})
    except Exception as error:
        if isinstance(dataset, IterableDataset) and _is_one_shot(dataset):
            raise _bad(
                name,
                f"its data set can be read only once and cannot be copied ({error})",
                f"pass a function that makes a new loader ({name}=lambda: make_loader()) or a list of a few batches",
            ) from error
        notes.append(f"The data set of {name} cannot be copied ({error}); its samples are read where they are.")
        return dataset


def _is_one_shot(dataset: Any) -> bool:
    held = [value for value in vars(dataset).values() if hasattr(value, "__next__")]
    return bool(held) or hasattr(dataset, "__next__")


def _with_parts(loader: Any, parts: dict[str, Any]) -> Any:
    """Give a shallow copy of a DataLoader with other parts; DataLoader itself forbids to set them."""
    replica = copy.copy(loader)
    alone = {"num_workers": 0, "persistent_workers": False, "_iterator": None, "pin_memory": False, "timeout": 0}
    for name, value in (alone | {"prefetch_factor": None} | parts).items():
        if name in replica.__dict__ or name in parts:
            object.__setattr__(replica, name, value)
    return replica


def _called(factory: Callable[[], Any], name: str) -> Iterable[Any]:
    made: Iterable[Any] = factory()
    if isinstance(made, DataLoader):
        return Feed(made, name)
    if not hasattr(made, "__iter__"):
        raise _bad(name, f"the function gave a {type(made).__name__}", "let it return an iterable of batches")
    return made


def _length(value: Any) -> int | None:
    try:
        return len(value)
    except (TypeError, NotImplementedError):
        return None


def _bad(name: str, seen: str, do: str) -> BadInput:
    return BadInput(
        seen, where=name, expected="a DataLoader, a list of batches, or something that can be iterated again", do=do
    )
