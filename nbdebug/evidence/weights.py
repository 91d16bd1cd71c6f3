"""How the weights of a model start, and what pulls at them."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = [
    "DecayRace",
    "InitialWeights",
    "RescaledStart",
    "StepSymmetry",
    "SymmetricLayer",
    "WeightFacts",
]


@dataclass(frozen=True)
class WeightFacts:
    """One weight matrix: its spread beside the spreads that the usual recipes give for its fans.

    `low` is the least that a usual recipe gives and `high` the most; `is_head` marks the last layer.
    """

    path: str
    name: str
    shape: tuple[int, ...]
    fan_in: int
    fan_out: int
    std: float
    low: float
    high: float
    looks_fresh: bool
    is_head: bool = False

    @property
    def excess(self) -> float:
        """How many times the spread lies above the band, or below it as a number under 1; 1 inside."""
        return self.std / self.high if self.std > self.high else min(self.std / self.low, 1.0)


@dataclass(frozen=True)
class InitialWeights:
    """The weights as they are now, and whether the model is freshly initialized or already trained."""

    weights: tuple[WeightFacts, ...]
    fresh: bool
    reason: str


def _end(losses: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Give where a curve ends: the mean of its last fifth, over the steps that the other curve has as well.

    A curve that stopped because its loss was not finite ends there, however short it is.
    """
    if not math.isfinite(losses[-1]):
        return losses[-1]
    steps = min(len(losses), len(other)) if math.isfinite(other[-1]) else len(losses)
    tail = max(1, steps // 5)
    return sum(losses[steps - tail : steps]) / tail


@dataclass(frozen=True)
class RescaledStart:
    """The loss of a short training as the weights are, and with the weights of some layers brought to scale."""

    layers: tuple[WeightFacts, ...]
    as_is: tuple[float, ...]
    rescaled: tuple[float, ...]

    @property
    def gain(self) -> float:
        """How much lower the loss is with the weights to scale, early or in the end, as a share of where that began."""
        if not self.rescaled:
            return 0.0
        third = len(self.rescaled) // 3
        pairs = ((self.as_is, self.rescaled), (self.as_is[:third], self.rescaled[:third]))
        lower = [_end(as_is, rescaled) - _end(rescaled, as_is) for as_is, rescaled in pairs if as_is and rescaled]
        return max(lower) / max(abs(self.rescaled[0]), 1e-12)

    @property
    def is_made_up_for(self) -> bool:
        """Whether the training as it is has come further in the end, wherever it began."""
        return bool(self.rescaled) and _end(self.as_is, self.rescaled) < _end(self.rescaled, self.as_is)

    @property
    def head_start(self) -> float:
        """How much lower the first loss is with the weights to scale, as a share of itself."""
        return (self.as_is[0] - self.rescaled[0]) / max(abs(self.rescaled[0]), 1e-12) if self.rescaled else 0.0


@dataclass(frozen=True)
class SymmetricLayer:
    """A weight whose units began alike: how many differed at the start and after a few steps, and how far it moved."""

    path: str
    name: str
    units: int
    distinct_before: int
    distinct_after: int
    is_zero: bool
    moved: float  # relative to the length of all parameters


@dataclass(frozen=True)
class StepSymmetry:
    """The layers whose units began alike, and whether a few steps told them apart."""

    layers: tuple[SymmetricLayer, ...]
    looked_at: int
    steps: int


@dataclass(frozen=True)
class DecayRace:
    """A short training with the weight decay given, beside one without.

    `dominance` is the part of one step that decay makes, over the part that the gradient makes.
    """

    decay: float
    learning_rate: float
    dominance: float
    with_decay: tuple[float, ...] = ()
    without: tuple[float, ...] = ()

    def ends(self) -> tuple[float, float]:
        """Give the mean loss of the last steps, with decay and without."""
        return _end(self.with_decay, self.without), _end(self.without, self.with_decay)
