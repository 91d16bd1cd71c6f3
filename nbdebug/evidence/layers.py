"""What the layers of a model do with what flows through them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

__all__ = [
    "DropoutShares",
    "DroppedShare",
    "GradientFlow",
    "InformationCuts",
    "LayerFlow",
    "LinearPair",
    "Linearity",
    "NarrowCut",
    "TimeFlow",
    "Trend",
    "UnitActivity",
    "UnitFacts",
    "trend_of",
]


@dataclass(frozen=True)
class UnitFacts:
    """What the units of one layer do over many samples, in eval mode.

    `dead` counts units that are zero for every sample because what goes into the activation is never positive;
    `saturated` counts units of a bounded activation with nearly zero gradient for almost every sample. `flat` is the
    fraction of all values at which the gradient is nearly zero.
    """

    path: str
    activation: str
    units: int
    dead: int
    saturated: int
    flat: float
    bounded: bool
    low: float  # of what goes into the activation
    high: float
    samples: int | None = None  # where this layer was seen with others than the rest


@dataclass(frozen=True)
class UnitActivity:
    """The units of all layers that have an activation, over so many samples, or looks at a real training.

    `learns` says that the loss fell all the same, as far as it was seen.
    """

    layers: tuple[UnitFacts, ...]
    samples: int
    all_seen: bool
    unit: str = "samples"
    learns: bool = False
    is_watched: bool = False  # by looks at a real training, which take single units


@dataclass(frozen=True)
class LayerFlow:
    """One layer with weights, in the order of the calls: the signal that it passes on and the gradient that it gets.

    `spread` is how much its output varies from sample to sample, `gradient` the norm of the loss's gradient at its
    output, `update` the change of its weights in one step of the optimizer relative to their size.
    """

    path: str
    spread: float
    gradient: float
    weight_gradient: float  # mean absolute value
    update: float


@dataclass(frozen=True)
class TimeFlow:
    """How the gradient changes on its way through time: its norm at the first step over that at the last."""

    path: str
    steps: int
    ratio: float


@dataclass(frozen=True)
class Trend:
    """A quantity over depth: how the far end compares with the near one, and how orderly it goes there.

    `ratio` is the end over the start, `factor` the same for one layer, `order` the rank correlation with depth.
    """

    ratio: float
    factor: float
    order: float
    layers: int
    largest: float  # the share of the whole change that the largest single step makes


def trend_of(values: Sequence[float]) -> Trend | None:
    """Describe how a quantity changes over layers; values that are zero or not finite are left out."""
    logs = [math.log(value) for value in values if 0 < value < math.inf]
    if len(logs) < 3:
        return None
    ranks = np.argsort(np.argsort(logs, kind="stable"), kind="stable")
    order = float(np.corrcoef(np.arange(len(logs)), ranks)[0, 1])
    change = logs[-1] - logs[0]
    steps = [(b - a) / change if change else 0.0 for a, b in pairwise(logs)]
    return Trend(math.exp(min(change, 700.0)), math.exp(change / (len(logs) - 1)), order, len(logs), max(steps))


@dataclass(frozen=True)
class GradientFlow:
    """Signal and gradient layer by layer; `head` is the last layer, whose output is the answer."""

    layers: tuple[LayerFlow, ...]
    time: tuple[TimeFlow, ...]
    signal: Trend | None  # from the first layer to the last hidden one
    gradient: Trend | None  # from the last layer back to the first
    optimizer: str


@dataclass(frozen=True)
class LinearPair:
    """Two layers with nothing between them that bends the values: the second works on what the first gives."""

    first: str
    second: str
    width: int  # what passes between them
    into: int  # what goes into the first
    out: int  # what comes out of the second

    @property
    def is_wasted(self) -> bool:
        """Whether one layer could do the same; a narrow middle makes a low rank, which is often meant."""
        return self.width >= min(self.into, self.out)


@dataclass(frozen=True)
class Linearity:
    """How far the network is from affine: the deviation of f(ax + (1−a)z) from af(x) + (1−a)f(z), in spreads of f.

    `chain` holds pairs of layers of which the second depends on the first, `touching` pairs that follow each other
    directly. `limit` is what rounding alone may give.
    """

    deviation: float
    limit: float
    chain: tuple[LinearPair, ...]
    touching: tuple[LinearPair, ...]

    @property
    def is_affine(self) -> bool:
        """Whether the whole network is affine to within rounding."""
        return self.deviation < self.limit


@dataclass(frozen=True)
class NarrowCut:
    """A layer through which everything flows that the answer depends on, and which is narrow for what is asked."""

    path: str
    width: int
    needed: float
    reason: str


@dataclass(frozen=True)
class InformationCuts:
    """The narrow layers through which all information flows, and how well a small batch can be learned through them.

    `quality` is accuracy or explained variance after a short training on one batch, None where no cut was found.
    """

    cuts: tuple[NarrowCut, ...]
    task: str
    quality: float | None = None
    measure: str = ""
    samples: int = 0


@dataclass(frozen=True)
class DroppedShare:
    """The share of values that training mode puts out at one place and eval mode does not."""

    path: str
    share: float
    error: float  # one standard deviation of the share
    is_source: bool = True  # False where the values were dropped earlier, and this place only receives them


@dataclass(frozen=True)
class DropoutShares:
    """Where training mode drops values, in the order of the calls."""

    places: tuple[DroppedShare, ...]
    looked_at: int
