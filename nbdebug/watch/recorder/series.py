"""Numbers over the steps of a training: series of one number, and what belongs together of a layer or parameter."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

__all__ = ["OCTAVES", "BatchTally", "LayerSeries", "OctaveHistory", "ParameterSeries", "Series", "SilentUnits"]


OCTAVES = (-20, 12)  # the histogram has one bucket an octave, from 2**-20 to 2**12, for each sign
_EMPTY = np.zeros(0)
_BY_BUCKET = ("steps", "values", "low", "high", "counts", "known")


@dataclass(frozen=True, eq=False)
class Series:
    """One number over the steps: every step by itself for the recent ones, older ones in buckets.

    `values` holds the mean of each bucket, `low` and `high` its range, `counts` how many steps it holds and `steps` the
    last of them; where a count is 1 the value is exact. NaN and infinite values are left out of the means of buckets
    and counted in `not_finite`; `known` is how many values of each bucket are left, which the mean is made of.
    """

    name: str = ""
    steps: np.ndarray = field(default_factory=lambda: _EMPTY.astype(np.int64))
    values: np.ndarray = field(default_factory=lambda: _EMPTY)
    low: np.ndarray = field(default_factory=lambda: _EMPTY)
    high: np.ndarray = field(default_factory=lambda: _EMPTY)
    counts: np.ndarray = field(default_factory=lambda: _EMPTY.astype(np.int64))
    not_finite: int = 0
    first_not_finite: int | None = None
    known: np.ndarray = field(default_factory=lambda: _EMPTY.astype(np.int64))

    def __post_init__(self) -> None:
        """Take every step of a bucket that has a mean for known, unless told otherwise."""
        if len(self.steps) and not len(self.known):
            object.__setattr__(self, "known", np.where(np.isfinite(self.values), self.counts, 0))

    def __len__(self) -> int:
        """Return the number of buckets."""
        return len(self.steps)

    @property
    def last(self) -> float:
        """The newest value; NaN where there is none."""
        return float(self.values[-1]) if len(self) else float("nan")

    @property
    def measured(self) -> int:
        """How many numbers came in altogether, without those that are not finite."""
        return int(self.known.sum())

    def since(self, step: int) -> Series:
        """Return the part from this step on."""
        return self._where(self.steps >= step)

    def tail(self, buckets: int) -> Series:
        """Return the newest buckets."""
        return self._where(np.arange(len(self)) >= len(self) - buckets)

    @property
    def exact(self) -> Series:
        """The recent part, in which every step stands by itself."""
        whole = np.flatnonzero(self.counts != 1)
        return self._where(np.arange(len(self)) > (whole[-1] if len(whole) else -1))

    @property
    def finite(self) -> Series:
        """The buckets that hold a number."""
        return self._where(np.isfinite(self.values))

    def _where(self, mask: np.ndarray) -> Series:
        kept = {name: getattr(self, name)[mask] for name in _BY_BUCKET}
        return replace(self, **kept)


@dataclass(frozen=True, eq=False)
class OctaveHistory:
    """Histograms over time, one bucket an octave: shares of the values of one layer.

    A row of `shares` holds, in this order, the negative values from large to small, zero, and the positive values from
    small to large; `steps` is the last step that the row covers. `edges` are the borders of the buckets.
    """

    steps: np.ndarray
    shares: np.ndarray

    @property
    def edges(self) -> np.ndarray:
        """The borders of the buckets, one more than there are buckets; zero stands between the two innermost."""
        positive = 2.0 ** np.arange(OCTAVES[0], OCTAVES[1] + 2)
        return np.concatenate([-positive[::-1], positive])


@dataclass(frozen=True, eq=False)
class LayerSeries:
    """The output of one module over the steps; sampled unless the layer is small, `not_finite` counts elements."""

    path: str
    module: str
    mean: Series
    std: Series
    abs_max: Series
    zeros: Series  # share of values that are exactly zero
    not_finite: Series  # share of values that are NaN or infinite
    histogram: OctaveHistory | None = None


@dataclass(frozen=True, eq=False)
class ParameterSeries:
    """One parameter over the steps.

    `gradient` is the norm of the gradient after the backward pass, `used` when the optimizer took it (after clipping
    and unscaling); `update` is |change in one step| / |weight|, from a sample of the elements.
    """

    name: str
    layer: str
    shape: tuple[int, ...]
    gradient: Series
    used: Series
    weight: Series
    update: Series

    @property
    def is_matrix(self) -> bool:
        """Whether it has two dimensions or more, as biases and the scales of norms have not."""
        return len(self.shape) > 1


@dataclass(frozen=True)
class SilentUnits:
    """Units of a layer that got no gradient and were never positive, over so many samples of the training."""

    path: str
    module: str
    units: int
    dead: int
    samples: int
    low: float  # of what they gave
    high: float


@dataclass(frozen=True)
class BatchTally:
    """Which batches were seen, told apart by a sample of their values.

    `in_a_row` is the longest run of the same batch; once `distinct` reached its limit, new ones are not remembered.
    `again` counts passes on the batch of the pass before, and `places` the passes of the training that one came with,
    out of `span`.
    """

    seen: int = 0
    distinct: int = 0
    in_a_row: int = 0
    most_common: int = 0
    is_full: bool = False
    again: int = 0
    places: int = 0
    span: int = 0
