"""What the loss says at the start, and when targets, batch size and terms are changed."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = [
    "BatchScaling",
    "FirstGuess",
    "InitialLoss",
    "LossGradient",
    "LossTerm",
    "LossTerms",
    "TargetInfluence",
    "TargetUse",
]


@dataclass(frozen=True)
class FirstGuess:
    """One output at the start, against answers that know nothing of the inputs.

    `guess` is the loss of saying nothing (equal scores; for numbers the worse of zero and their mean), `constant`
    that of the best answer that is the same for all samples, which is `best`, one value for each output unit.
    `untrained` are the losses of copies with fresh weights, `soon` the least loss within the first steps of a training.
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
    soon: float = math.inf

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
