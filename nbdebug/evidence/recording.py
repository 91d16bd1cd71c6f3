"""What `nbdebug.watch` recorded of a real training, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from nbdebug.core.registry import probe
from nbdebug.distributed.rank_facts import RankFacts
from nbdebug.errors import NotApplicable
from nbdebug.evidence.optimizer_coverage import OptimizerCoverage

__all__ = [
    "BatchTally",
    "LayerSeries",
    "OctaveHistory",
    "ParameterSeries",
    "Recording",
    "Series",
    "SilentUnits",
    "StepTally",
    "recording",
]


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
        """Take every step of a bucket that has a mean for known, where nobody says otherwise."""
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


@dataclass(frozen=True)
class StepTally:
    """What happened around the steps of the optimizers, counted.

    `leftover_steps` are those whose gradients were added to gradients of an earlier step, because nothing cleared them
    in between, out of `leftover_judged`; `backwards_per_step` pairs a number of backward passes with how many steps
    had it. `graphs_alive` counts graphs of earlier steps that something still holds.
    """

    steps: int = 0
    training_passes: int = 0
    parts: int = 1  # modules whose passes are counted: all layers where the model is never called as a whole
    evaluation_passes: int = 0
    backwards: int = 0
    backwards_per_step: tuple[tuple[int, int], ...] = ()
    backwards_since_step: int = 0
    backwards_discarded: int = 0  # whose gradients were cleared before any optimizer used them
    steps_without_backward: int = 0
    steps_without_gradient: int = 0
    leftover_steps: int = 0
    leftover_judged: int = 0
    steps_in_eval_mode: int = 0
    first_step_in_eval_mode: int | None = None
    eval_modules: tuple[str, ...] = ()  # in eval mode while the model trains
    mode_modules: tuple[str, ...] = ()  # that behave differently in training and in eval mode
    graphs_alive: int = 0
    clipped_steps: int = 0
    norms_compared: int = 0
    other_optimizers: tuple[tuple[str, int], ...] = ()  # further optimizers, with their numbers of steps
    rivals: int = 0  # of these, that come with backward passes of their own
    late_steps: int = 0  # whose only gradients came before their forward pass
    strangers: tuple[tuple[str, int], ...] = ()  # optimizers that stepped and hold nothing of the model
    lost_passes: tuple[tuple[int, int], ...] = ()  # as `backwards_per_step`: passes in vain, of steps looked at closely
    changed_outside: tuple[int, ...] = ()  # of the first steps those before which something else changed the weights


@dataclass(frozen=True, eq=False)
class Recording:
    """Everything that was recorded so far, as it was at one moment.

    `scalars` holds the loss under "loss" and whatever else was logged; `times` the seconds of a step in "data",
    "forward", "backward" and "step"; `gradient` and `used` the norm of the whole gradient, after the backward pass and
    as the optimizer took it. `sampled_every` is the usual distance of the steps at which layers were measured.
    `unseen` says in whole sentences what could not be seen.
    """

    model: str
    optimizer: str
    tally: StepTally
    scalars: Mapping[str, Series] = field(default_factory=dict)
    rates: Mapping[str, Series] = field(default_factory=dict)
    layers: Mapping[str, LayerSeries] = field(default_factory=dict)
    parameters: Mapping[str, ParameterSeries] = field(default_factory=dict)
    gradient: Series = field(default_factory=Series)
    used: Series = field(default_factory=Series)
    times: Mapping[str, Series] = field(default_factory=dict)
    training: Series = field(default_factory=Series)  # 1 where the model was in training mode, 0 in eval mode
    graphs: Series = field(default_factory=Series)  # graphs of earlier passes that something still holds
    memory: Series = field(default_factory=Series)  # bytes of the process, and of the device where there is one
    scale: Series = field(default_factory=Series)  # of a GradScaler
    batches: BatchTally = field(default_factory=BatchTally)
    asked: BatchTally = field(default_factory=BatchTally)  # inputs of the first passes without gradients
    asked_small: int = 0  # of these, that are far smaller than a batch of the training
    sampled_every: float = 1.0
    share: float = 0.0  # of the time that the watcher took itself
    budget: float = 0.0
    seconds: float = 0.0
    device: str = "cpu"
    unseen: tuple[str, ...] = ()
    coverage: OptimizerCoverage | None = None  # which parameters with a gradient the optimizers that step hold
    silent: tuple[SilentUnits, ...] = ()  # units that nothing trains any more
    ranks: tuple[RankFacts, ...] = ()  # every process of a distributed training, as far as it was heard

    @property
    def loss(self) -> Series:
        """The loss; empty where it was not seen."""
        return self.scalars.get("loss", Series("loss"))

    @property
    def steps(self) -> int:
        """How many optimizer steps were recorded."""
        return self.tally.steps


@probe
def recording() -> Recording:
    """Read the recording of nbdebug.watch."""
    raise NotApplicable("no training run was recorded; use `with nbdebug.watch(model, optimizer) as live:`")
