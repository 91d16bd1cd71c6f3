"""Draw samples at random over a whole data set, bounded in number."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from nbdebug.core.control import Control
from nbdebug.setup.batch import Batch
from nbdebug.setup.batch_source import Feed
from nbdebug.setup.object_graph import arrays_in, copy_generator, generators_in
from nbdebug.setup.read_samples import over_all
from nbdebug.setup.tensor_memory import array_of
from nbdebug.setup.user_code import required_user_code

__all__ = ["Drawn", "Reader", "drawn", "fresh_reader", "seed_all", "seed_torch"]

Wrap = Callable[[Any], Batch]
Tell = Callable[[float], None]


@dataclass(frozen=True)
class Drawn:
    """Some samples, collated as the loader does it, with their places in the data set."""

    indices: tuple[int, ...]
    batch: Batch


def drawn(
    feed: Feed, wrap: Wrap, *, count: int, tell: Tell, control: Control | None = None, part: float = 0.4
) -> Iterator[Drawn]:
    """Return up to so many different samples, at random where they can be reached by index.

    A feed without an index is read from its beginning; its samples are numbered as they come. A sample that cannot be
    read is left out. Under a time limit there are as many as fit into a part of the time left, judged by the first.
    """
    begin, seen = control.clock() if control is not None else 0.0, set[int]()
    is_timed = control is None or not control.has_budget

    def poll() -> None:
        tell(len(seen) / count)

    for draw in over_all(feed, wrap, math.inf, poll):
        if seen and not is_timed and control is not None:
            is_timed, first = True, len(seen)
            count = first + control.affordable((control.clock() - begin) / first, max(count - first, 0), part=part)
        if len(seen) >= count:
            return
        if draw.batch is None:
            continue
        counted = tuple(range(len(seen), len(seen) + draw.batch.size))
        places = counted if feed.gives_whole_batches else draw.indices  # there, an index is a whole batch
        new = [i for i, place in enumerate(places) if place not in seen]  # a sampler may draw one twice
        if not new:
            continue
        seen.update(places)
        whole = len(new) == draw.batch.size
        yield Drawn(tuple(places[i] for i in new), draw.batch if whole else draw.batch.select(torch.tensor(new)))
        if len(seen) >= count:
            return


def seed_all(seed: int) -> None:
    """Set every global generator, as an experiment that reads the same sample twice has to."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    seed_torch(seed)


def seed_torch(seed: int) -> None:
    """Set torch's generators, those of a device only where it is in use.

    `torch.manual_seed` also queues a call, with a written traceback, for every device that is not in use yet.
    """
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(seed)


class Reader:
    """A copy of a feed's data set that is read with the generators, global and its own, set as asked."""

    def __init__(self, feed: Feed, wrap: Wrap) -> None:
        self.feed, self._wrap, self.dataset = feed, wrap, feed.dataset
        self._own = [(live, copy_generator(live)) for live in generators_in(self.dataset)]

    @property
    def is_copy(self) -> bool:
        """Whether reading cannot touch the user's own data."""
        live = {id(array) for array in arrays_in(self.feed.loader.dataset)}
        return self.dataset is not self.feed.loader.dataset and not any(id(a) in live for a in arrays_in(self.dataset))

    def stored(self) -> list[bytes]:
        """Return a digest of every array that the data set holds, up to a size, in a fixed order."""
        return [_digest(array) for array in arrays_in(self.dataset)]

    def read(self, index: int, seed: int) -> Batch:
        """Read one sample as a batch of one, with all generators at a state that belongs to the seed."""
        seed_all(seed)
        for live, start in self._own:
            _set_to(live, start, seed)
        with required_user_code(f"sample {index} cannot be loaded ({{kind}}); see sample-fails"):
            return self._wrap(self.feed.collate([self.dataset[index]]))

    def is_overwritten(self, index: int, neighbor: int) -> bool:
        """Whether a sample that was read takes the values of another one when that is read."""
        seed_all(0)
        with required_user_code(f"sample {index} cannot be loaded ({{kind}}); see sample-fails"):
            one = self.dataset[index]
            before = self._wrap(self.feed.collate([one]))
            other = self._wrap(self.feed.collate([self.dataset[neighbor]]))
            after = self._wrap(self.feed.collate([one]))
        return any(
            not torch.equal(values, before.inputs[name]) and torch.equal(values, other.inputs[name])
            for name, values in after.inputs.items()
            if name in before.inputs and name in other.inputs
        )


def fresh_reader(feed: Feed, wrap: Wrap) -> Reader | None:
    """Copy the data set anew from the user's, unread; None where samples cannot be reached by index."""
    again = Feed(feed.loader, feed.name)
    return Reader(again, wrap) if again.dataset is not None and again.total else None


def _digest(array: Any) -> bytes:
    values = array.detach().cpu() if isinstance(array, torch.Tensor) else array
    if values.nbytes > 100_000_000 or (isinstance(values, torch.Tensor) and values.layout is not torch.strided):
        return b""
    plain = array_of(values.contiguous().view(-1).view(torch.uint8)) if isinstance(values, torch.Tensor) else values
    return hashlib.blake2b(np.ascontiguousarray(plain).tobytes(), digest_size=12).digest()


def _set_to(live: Any, start: Any, seed: int) -> None:
    """Bring a generator to its first state for seed 0, and to another one for every other seed."""
    if isinstance(live, torch.Generator):
        live.set_state(start.get_state()) if seed == 0 else live.manual_seed(seed)
    elif isinstance(live, np.random.Generator):
        other = type(live.bit_generator)(seed)
        live.bit_generator.state = start.bit_generator.state if seed == 0 else other.state
    elif isinstance(live, np.random.RandomState):
        live.set_state(start.get_state()) if seed == 0 else live.seed(seed % 2**32)
    else:
        live.setstate(start.getstate()) if seed == 0 else live.seed(seed)
