"""The parameters, data and timings of one process, as plain numbers that other ranks can compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["RankFacts", "TensorPrint"]


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
    place: tuple[int, ...] = ()  # of the piece that this process holds, where the tensor is sharded


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
    share: int | None = None  # of the data, where pieces of one computation have to be given the same
    not_finite: tuple[tuple[str, str, str, int], ...] = ()  # what first was not finite: what, where, module, step
    waiting: tuple[str, ...] = ()  # sharded parameters whose piece got no gradient but zeros
