"""How the data are taken in: by the order of the loader, by the first weights, by the loss."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

__all__ = [
    "BadValuesReach",
    "ClassWeighting",
    "EpochOrder",
    "FirstLayer",
    "FirstWeights",
    "ImageLayout",
    "LoneSample",
    "StoredValues",
    "ValueLoss",
]


@dataclass(frozen=True)
class BadValuesReach:
    """Whether NaN or infinity in a sample comes through: None where that could not be tried.

    `inputs_swallowed` says that the prediction and the loss stay finite, `targets_swallowed` that the loss does.
    """

    inputs_swallowed: bool | None = None
    targets_swallowed: bool | None = None
    reason: str = ""


@dataclass(frozen=True)
class ValueLoss:
    """One input on its way from where it is stored to the batch: how it was cut down, if it was.

    `how` is "" (nothing lost), "cast" (the part behind the decimal point is gone) or "division" (whole numbers divided
    by their largest, without a remainder). `stage` is where: reading or collating.
    """

    name: str
    how: str = ""
    stage: str = ""
    stored_as: str = ""
    stored_levels: int = 0
    given_levels: int = 0
    stored_high: float = math.nan


@dataclass(frozen=True)
class StoredValues:
    """The inputs as the data set holds and gives them, compared with what is in the batch."""

    compared: int
    parts: tuple[ValueLoss, ...] = ()


@dataclass(frozen=True)
class EpochOrder:
    """Which samples one pass over the loader draws, found without reading any.

    `again` counts the samples that a second pass draws as well; `same_order` says that both passes are alike.
    `elsewhere` counts further samples of the same data set that the validation or test loader draws.
    """

    total: int
    drawn: int
    distinct: int
    distinct_in_two: int
    same_order: bool
    ascending: bool
    elsewhere: int
    batch_size: int | None
    last_batch: int
    drop_last: bool
    sampler: str
    replicas: int = 1
    subset_of: int | None = None


@dataclass(frozen=True)
class ImageLayout:
    """How smooth pictures are along each of their axes, and whether another reading of the same values is smoother.

    `smooth` has for each axis (channels, height, width) the mean difference of neighbors relative to that of places
    chosen at random along the axis (1 means no order at all, NaN too short to say), and `ordered` the share of pictures
    in which neighbors are nearer. `other` names the best other reading; `gain` is its roughness relative to that of
    the reading in use, `wins` the share of pictures in which it is smoother.
    """

    shape: tuple[int, int, int]
    pictures: int
    smooth: tuple[float, float, float]
    ordered: tuple[float, float, float]
    other: str = ""
    gain: float = 1.0
    wins: float = 0.0


@dataclass(frozen=True)
class FirstLayer:
    """What arrives at a layer with weights before any other weight has touched it, feature by feature.

    `size` is the root mean square of all values of a feature, `filled` that of its values other than 0. `drive` is
    the root mean square of what the weights make of it, before any activation.
    """

    path: str
    module: str
    samples: int
    size: np.ndarray
    filled: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    low: float
    high: float
    drive: float
    features: int
    layout: ImageLayout | None = None


@dataclass(frozen=True)
class FirstWeights:
    """The first layers with weights, and how much of a change of scale comes through to the end of the model.

    `response` is the relative change of the deepest varying activation when all inputs are made ten times smaller: near
    0 in a model that normalizes by itself. `noise` is the change between two equal passes.
    """

    layers: tuple[FirstLayer, ...]
    response: float
    noise: float

    @property
    def ignores_scale(self) -> bool:
        """Whether the model normalizes what it receives, wherever that is done."""
        return self.response < max(0.05, 2 * self.noise)


@dataclass(frozen=True)
class LoneSample:
    """What the model does in training mode with one sample, and with two.

    `normaliser` is the first module that normalizes over the batch.
    """

    fails: str = ""
    runs_on_two: bool = True
    normaliser: str = ""


@dataclass(frozen=True)
class ClassWeighting:
    """How hard the loss pulls at samples of different classes that are predicted equally well.

    `pulls` maps a class to the size of the gradient at its output. `discount` is how much less an easy sample pulls
    than under cross-entropy (1 means as much, 0 not at all), None where that was not tried.
    """

    pulls: dict[int, float] = field(default_factory=dict)
    discount: float | None = None
    reason: str = ""
