"""The loss curve of a short training, and how well the predictions fit."""

from __future__ import annotations

from dataclasses import dataclass

import torch

__all__ = ["Curve", "Fit", "accuracy", "explained_variance"]


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

    `outcome` is `memorized`, falling, plateaus, oscillates, rises, explodes or not-finite.
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
        return self.outcome in ("memorized", "falling")


def accuracy(predicted: torch.Tensor, target: torch.Tensor) -> Fit:
    """Return the share of predicted classes that are right, and that of the commonest class."""
    right = predicted == target
    commonest = target.long().flatten().bincount().max()
    return Fit("accuracy", float(right.double().mean()), float(commonest / right.numel()))


def explained_variance(predicted: torch.Tensor, target: torch.Tensor) -> Fit | None:
    """Return the share of the targets' variance that is explained; None where they do not vary."""
    wanted = target.double() if not target.is_complex() else torch.view_as_real(target).double()
    got = predicted.double() if not predicted.is_complex() else torch.view_as_real(predicted).double()
    wanted, got = wanted.reshape(len(wanted), -1), got.reshape(len(wanted), -1)
    spread = float((wanted - wanted.mean(0)).square().sum())
    if spread <= 0:
        return None
    return Fit("explained variance", 1 - float((wanted - got).square().sum()) / spread, 0.0)
