"""What short trainings of a twin show."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "BlindRun",
    "Curve",
    "Fit",
    "Overfit",
    "Pace",
    "RateTrials",
    "ShortRun",
    "UpdateRatios",
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

    `outcome` is `memorised`, falling, plateaus, oscillates, rises, explodes or not-finite.
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
    def spiked(self) -> bool:
        """Whether the loss jumped to more than twice its first value on the way."""
        return max(self.losses) > self.first + max(abs(self.first), 1e-6)

    @property
    def learned(self) -> bool:
        """Whether the batch was learned, or was on a good way to be."""
        return self.outcome in ("memorised", "falling")


@dataclass(frozen=True)
class Overfit:
    """A twin trained on one small batch and on nothing else; where that failed, also on two samples alone.

    `swapped` is the loss that the trained twin has when each sample is given the inputs of another.
    """

    curve: Curve
    batch_size: int
    optimizer: str
    optimizer_assumed: bool
    pair: Curve | None = None
    swapped: float | None = None

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
    """The overfit experiment again, with the inputs of one sample put in the place of everybody's.

    What is learned so cannot come from the inputs; `sighted` is the same training with the real ones, and `swapped`
    the loss that it leads to when the samples' inputs are then exchanged. `told` says that the model is
    handed the labels, as a conditional one is.
    """

    blind: Curve
    sighted: Curve
    samples: int
    swapped: float | None = None
    told: bool = False


@dataclass(frozen=True)
class ShortRun:
    """A short real training through the loader: losses, quality before and after, and where the time went.

    Quality and loss are measured on the same samples before and after. `ratios` are, for each weight matrix, the median
    over the first steps of |change| / |weight|; `settled` says that the loss has stopped falling though weights moved.
    `by_hand` says that the loss is given more than outputs and targets, so that it may want other answers than these.
    """

    losses: tuple[float, ...]
    samples: int
    fit_before: Fit | None
    fit_after: Fit | None
    loss_before: float
    loss_after: float
    settled: bool
    loading_seconds: float
    training_seconds: float
    workers: int
    ratios: tuple[tuple[str, float], ...] = ()
    by_hand: bool = False
    fitted: int = 0  # samples that the two fits were measured on


@dataclass(frozen=True)
class Pace:
    """Where the time of a step goes: waiting for the batch, and training on it; `workers` load side by side.

    In a real training, `place` names it, and waiting is all that passes between a step and the next forward pass.
    """

    loading_seconds: float
    training_seconds: float
    workers: int = 1
    place: str = ""


@dataclass(frozen=True)
class UpdateRatios:
    """|change in one step| / |weight| for each weight matrix, and the loss before and after those steps."""

    ratios: tuple[tuple[str, float], ...]
    loss_before: float
    loss_after: float
