"""What short trainings of a twin show."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "BlindRun",
    "Curve",
    "Fit",
    "Loop",
    "LoopStep",
    "OptimizerFacts",
    "Overfit",
    "RateTrials",
    "Schedule",
    "ShortRun",
]


@dataclass(frozen=True)
class Fit:
    """How well outputs answer targets: the share of right answers, or the share of variance explained.

    `chance` is the same measure for the best answer that does not look at the input.
    """

    measure: str  # "accuracy" or "explained variance"
    value: float
    chance: float

    @property
    def is_perfect(self) -> bool:
        """Whether next to nothing is missing."""
        return self.value >= (0.999 if self.measure == "accuracy" else 0.95)

    @property
    def above_chance(self) -> float:
        """How far the way from chance to perfection has been gone: 0 is guessing, 1 is perfect."""
        return (self.value - self.chance) / max(1.0 - self.chance, 1e-9)


@dataclass(frozen=True)
class Curve:
    """The losses of one training, and how it went.

    `outcome` is memorised, falling, plateaus, oscillates, rises, explodes or not-finite.
    """

    losses: tuple[float, ...]
    outcome: str
    learning_rate: float
    fit: Fit | None = None

    @property
    def first(self) -> float:
        """The loss before the first step."""
        return self.losses[0]

    @property
    def last(self) -> float:
        """The loss at the end, as the median of the last tenth."""
        tail = sorted(self.losses[-max(1, len(self.losses) // 10) :])
        return tail[len(tail) // 2]

    @property
    def best(self) -> float:
        """The lowest loss."""
        return min(self.losses)

    @property
    def learned(self) -> bool:
        """Whether the batch was learned, or was on a good way to be."""
        return self.outcome in ("memorised", "falling")


@dataclass(frozen=True)
class Overfit:
    """A twin trained on one small batch and on nothing else; where that failed, also on two samples alone."""

    curve: Curve
    batch_size: int
    optimizer: str
    optimizer_assumed: bool
    pair: Curve | None = None

    @property
    def outcome(self) -> str:
        """How the training on the batch went."""
        return self.curve.outcome


@dataclass(frozen=True)
class RateTrials:
    """The same short training on one batch at several learning rates around the one in use.

    `update_ratio` is the median relative change of the weights in one step at the rate in use.
    """

    rate: float
    assumed: bool
    trials: tuple[Curve, ...]  # by rising learning rate; one of them has `rate`
    update_ratio: float
    steps: int

    @property
    def own(self) -> Curve:
        """The training at the rate in use."""
        return next(curve for curve in self.trials if curve.learning_rate == self.rate)


@dataclass(frozen=True)
class BlindRun:
    """Short trainings on the data, on inputs of zeros, and on inputs shuffled against their targets.

    Each is the share of the first loss that was removed on a fixed set of samples, after the same number of steps.
    """

    gain: float
    gain_on_zeros: float
    gain_on_shuffled: float
    steps: int
    samples: int
    noise: float


@dataclass(frozen=True)
class ShortRun:
    """A short real training through the loader: losses, quality before and after, and where the time went."""

    losses: tuple[float, ...]
    steps: int
    fit_before: Fit | None
    fit_after: Fit | None
    held_out_loss_before: float
    held_out_loss_after: float
    loading_seconds: float
    training_seconds: float
    workers: int
    update_ratios: tuple[tuple[str, float], ...] = ()
    baselines: tuple[tuple[str, float], ...] = ()  # the same measure for simple models, where it can be had


@dataclass(frozen=True)
class LoopStep:
    """What one call of the user's training step did.

    `leftover` is the norm of gradients from before an optimizer step that were still there when the next backward
    pass began; `raw_norm` and `used_norm` are the gradient's norm after backward and when the optimizer used it.
    """

    loss: float
    forwards: int
    backwards: int
    steps: int
    leftover: float
    raw_norm: float
    used_norm: float
    change: float
    step_without_gradient: bool
    training_mode: bool
    keeps_graph: bool


@dataclass(frozen=True)
class Loop:
    """The user's own training step, called a few times on a twin."""

    calls: tuple[LoopStep, ...]
    other_change: float  # how much the parameters changed that the optimizer does not hold
    graphs_alive: int  # graphs of the calls that something still holds after the last one


@dataclass(frozen=True)
class Schedule:
    """The learning rates that a scheduler would give, step by step, without training."""

    name: str
    rates: tuple[float, ...]
    per_epoch_batches: int | None


@dataclass(frozen=True)
class OptimizerFacts:
    """The settings of the optimizer, one dict of plain numbers for each parameter group."""

    name: str
    groups: tuple[dict[str, float], ...]
    assumed: bool
