"""What the processes of one distributed training say about themselves, side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

__all__ = ["MovingBuffers", "RankFacts", "Ranks", "TensorPrint", "apart_in", "likeness"]


@dataclass(frozen=True)
class TensorPrint:
    """One parameter or buffer in a few numbers: enough to tell whether another process holds the same values.

    `kept` says that DistributedDataParallel promises to keep it the same on every process.
    """

    name: str
    is_buffer: bool
    shape: tuple[int, ...]
    kept: bool
    norm: float
    total: float
    sample: tuple[float, ...]


@dataclass(frozen=True)
class RankFacts:
    """One process: the values that it holds, the data that it draws, and how long its steps take.

    `order` are the first indices of one pass over the loader's data set of `samples`, out of `draws`; `batches` are
    digests of batches in the order in which they came; `period` is the number of batches after which they came again in
    the same order. `epoch` is where a sampler with `set_epoch` stands, `epochs` how many the training has behind it.
    `times` gives the quartiles of the seconds of a step, by its part; `moved` the buffers that a pass changes.
    `own_averaging` says that the user's own hook decides when gradients or weights are averaged,
    `sends_buffers` that a forward pass begins with the buffers of the first process, for which the others wait.
    """

    rank: int
    prints: tuple[TensorPrint, ...] = ()
    order: tuple[int, ...] = ()
    draws: int = 0
    samples: int = 0
    batches: tuple[int, ...] = ()
    period: int = 0
    epoch: int | None = None
    epochs: float = 0.0
    fixed_order: bool = False
    steps: int = 0
    times: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    moved: tuple[str, ...] = ()
    own_averaging: bool = False
    sends_buffers: bool = False


@dataclass(frozen=True)
class Ranks:
    """Every process that was heard, the first one first."""

    facts: tuple[RankFacts, ...]

    @property
    def first(self) -> RankFacts:
        """The process that gathers."""
        return self.facts[0]


@dataclass(frozen=True)
class MovingBuffers:
    """The buffers that a pass in training mode changes, as running statistics do."""

    names: tuple[str, ...]


def apart_in(one: RankFacts, other: RankFacts, *, buffers: bool, rounding: float) -> list[tuple[TensorPrint, float]]:
    """Give the tensors of the same name and shape whose values differ by more than rounding, and by how much."""
    known = {p.name: p for p in other.prints if p.is_buffer == buffers}
    pairs = [(p, known[p.name]) for p in one.prints if p.name in known and p.shape == known[p.name].shape]
    sized = [(mine, _distance(mine, theirs)) for mine, theirs in pairs if mine.is_buffer == buffers]
    return [(mine, size) for mine, size in sized if size > rounding]


def likeness(one: RankFacts, other: RankFacts, name: str) -> float:
    """Give the correlation of a tensor's samples on two processes; 0 where there is too little to say."""
    mine, theirs = (next(np.array(p.sample) for p in facts.prints if p.name == name) for facts in (one, other))
    if len(mine) < 8 or not np.std(mine) > 0 or not np.std(theirs) > 0:
        return 0.0
    return float(np.corrcoef(mine, theirs)[0, 1])


def _distance(mine: TensorPrint, theirs: TensorPrint) -> float:
    """Give how far two tensors are apart, relative to their size, by their samples, norms and sums."""
    count = math.prod(mine.shape)
    scale = max(mine.norm, theirs.norm) / math.sqrt(count)
    if scale == 0:
        return 0.0
    sampled = max(abs(a - b) for a, b in zip(mine.sample, theirs.sample, strict=True))
    summed = abs(mine.total - theirs.total) / math.sqrt(count)
    return max(sampled, summed, abs(mine.norm - theirs.norm) / math.sqrt(count)) / scale
