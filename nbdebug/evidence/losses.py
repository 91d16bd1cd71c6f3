"""How the loss answers when outputs, targets and batch size are changed."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = [
    "BatchScaling",
    "FirstGuess",
    "HeadResponse",
    "InitialLoss",
    "LossGradient",
    "LossResponse",
    "LossTerm",
    "LossTerms",
    "TargetInfluence",
    "TargetKind",
    "TargetUse",
]


@dataclass(frozen=True)
class TargetKind:
    """What one target tensor holds, over several batches.

    `integral` says that all values are whole numbers; `one_hot`, `many_hot` are the shares of rows of 0 and 1 with
    exactly one and with another number of ones; `sums_to_one` that each row is a distribution. `order_p` is the
    p-value of "classes with neighbouring numbers have inputs that are more alike", where it could be tested.
    """

    name: str
    shape: tuple[int, ...]
    is_integer_type: bool
    integral: bool
    distinct: int
    low: float
    high: float
    evenness: float = math.nan
    one_hot: float = 0.0
    many_hot: float = 0.0
    sums_to_one: bool = False
    order_p: float | None = None


@dataclass(frozen=True)
class HeadResponse:
    """One output of the model: what it can be, and what the loss makes of it.

    `family` is how the loss reads it (see `nbdebug.twin.loss_family`); softmax-twice and sigmoid-twice are losses that
    squash once more. `scale` is what the model gives: probabilities or log-probabilities over the dimensions `over`,
    or values, within `low` and `high` whatever the weights of the last layer. `floor` is the least loss that outputs
    without bounds reach on this batch, `reachable` the least within the bounds, `chance` that of equal scores.
    `is_compared` says that what the loss wants was seen to be the target.
    `clipped` is the share of real outputs exactly on a bound, `one_sided` that of outputs which are on it with the last
    layer or with its negative, but not with both: an activation right behind that layer.
    `toward` is the share of the elements that the loss pulls toward their target; 0 is a loss with its sign flipped.
    """

    name: str
    shape: tuple[int, ...]
    classes: int
    class_dim: int | None
    family: str
    loss_dim: int | None
    scale: str
    over: tuple[int, ...]
    low: float
    high: float
    clipped: float
    one_sided: float
    place: str
    module: str
    seen_low: float
    seen_high: float
    target: TargetKind | None = None
    is_compared: bool = False
    floor: float | None = None
    reachable: float | None = None
    chance: float | None = None
    toward: float | None = None
    even_weights: bool = True
    wanted_low: float | None = None
    wanted_high: float | None = None
    unreachable: float = 0.0

    @property
    def shortfall(self) -> float:
        """The part of the way from chance to a perfect loss that the bounds of the output forbid."""
        if self.floor is None or self.reachable is None or self.chance is None or self.chance <= self.floor:
            return 0.0
        return (self.reachable - self.floor) / (self.chance - self.floor)

    @property
    def is_bounded(self) -> bool:
        """Whether the outputs stay in a narrow range whatever the weights of the last layer are."""
        return 0 < self.high - self.low < 40

    @property
    def is_unit_interval(self) -> bool:
        """Whether all outputs stay between 0 and 1."""
        return self.low >= -1e-6 and self.high <= 1 + 1e-6 and self.high > self.low


@dataclass(frozen=True)
class LossResponse:
    """The loss asked about made-up outputs: one answer for each output that has an influence on it.

    `over_samples` names modules, with their kinds, whose outputs sum to 1 over the samples of the batch.
    """

    loss_name: str
    assumed: bool
    place: str
    heads: tuple[HeadResponse, ...]
    batch_size: int
    over_samples: tuple[tuple[str, str], ...] = ()

    @property
    def named(self) -> str:
        """The loss as a sentence can name it."""
        return f"{self.loss_name}, which was assumed," if self.assumed else self.loss_name

    @property
    def begins(self) -> str:
        """The loss as the first words of a sentence."""
        return self.named[:1].upper() + self.named[1:] if self.named.startswith("the ") else self.named


@dataclass(frozen=True)
class FirstGuess:
    """One output at the start, against answers that know nothing of the inputs.

    `guess` is the loss of saying nothing (equal scores; for numbers the worse of zero and their mean), `constant`
    that of the best answer that is the same for all samples, which is `best`, one value for each output unit.
    `untrained` are the losses of copies with fresh weights.
    """

    name: str
    kind: str
    place: str
    classes: int
    rows: int
    loss: float
    guess: float
    constant: float
    best: tuple[float, ...]
    says: str
    untrained: tuple[float, ...] = ()

    @property
    def is_constant(self) -> bool:
        """Whether one answer is right for all samples of the batch, so that there is nothing to guess."""
        return self.constant < (1e-9 if self.kind == "regression" else 0.01) * self.guess

    @property
    def luck(self) -> float:
        """What frequencies counted in so few samples win by chance, as Miller and Madow have it."""
        if self.classes < 2 or self.rows == 0:
            return 0.0
        return self.guess / math.log(self.classes) * (self.classes - 1) / (2 * self.rows)


@dataclass(frozen=True)
class InitialLoss:
    """The first loss of each output whose loss is understood."""

    guesses: tuple[FirstGuess, ...]
    reason: str = ""


@dataclass(frozen=True)
class LossGradient:
    """Whether a gradient leaves the loss and reaches the model.

    `kind` is the type of what the loss returned, `numbers` how many numbers it holds. `cut` is the module, or the
    function of the loss, behind which nothing flows back; `flat` says that it flows but is zero everywhere.
    """

    kind: str
    numbers: int
    requires_grad: bool
    reaches_output: bool
    output_requires_grad: bool
    trainable: int
    flat: bool
    cut: str
    place: str


@dataclass(frozen=True)
class TargetUse:
    """How much the loss changes when one target is exchanged for others, relative to the loss."""

    name: str
    shape: tuple[int, ...]
    influence: float
    fits_output: bool


@dataclass(frozen=True)
class TargetInfluence:
    """Every target, exchanged in turn; `wants_one_answer` says that the loss wants the same class for every sample."""

    place: str
    uses: tuple[TargetUse, ...]
    wants_one_answer: bool


@dataclass(frozen=True)
class BatchScaling:
    """The loss of a batch and of the same batch twice over.

    Where the loss sums and the optimizer does not adapt, `ends` are the losses after a few steps relative to the
    first, with the learning rate given and with that divided by the batch size.
    """

    batch_size: int
    once: float
    twice: float
    place: str
    optimizer: str = ""
    learning_rate: float = math.nan
    ends: tuple[float, float] | None = None

    @property
    def growth(self) -> float:
        """How many times the loss of the double batch is that of the single one."""
        return self.twice / self.once if self.once else math.nan


@dataclass(frozen=True)
class LossTerm:
    """One term of the loss with its weight in the sum: its value, and the norm of its gradient early and later."""

    name: str
    weight: float
    value: float
    first: float
    later: float


@dataclass(frozen=True)
class LossTerms:
    """The terms of the loss, at the start and after some steps of training on one batch."""

    terms: tuple[LossTerm, ...]
    steps: int
    place: str
