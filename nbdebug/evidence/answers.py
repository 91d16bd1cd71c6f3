"""How the loss takes the targets: their shape, their labels, their size, and the padding among them."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["LabelTrial", "LabelTrials", "PaddingTrial", "TargetAlignment", "TargetReach"]


@dataclass(frozen=True)
class TargetAlignment:
    """Whether each output is compared with the target of its own sample.

    `spill` is the share of a sample's target that pulls at the outputs of other samples, `mended` the same after the
    target was reshaped as `reshape` says ("" where no reshaping helps). `error` is what the loss says to the targets as
    they are, `warning` what PyTorch says about their size.
    """

    name: str
    output_shape: tuple[int, ...]
    target_shape: tuple[int, ...]
    spill: float
    reshape: str = ""
    mended: float = math.nan
    error: str = ""
    warning: str = ""
    assumed: bool = False


@dataclass(frozen=True)
class LabelTrial:
    """What the loss does with one label: taken, ignored, refused, or wrapped round to another class."""

    value: float
    verdict: str
    same_as: int | None = None


@dataclass(frozen=True)
class LabelTrials:
    """The labels that lie outside of the classes, tried one by one, and what would make a loss run that fails.

    `error` is what the loss says to the labels as they are; `repair` names the change that helps. `bottomless` says
    that these labels let the loss fall without end where labels of 0 and 1 do not.
    """

    name: str
    classes: int = 0
    trials: tuple[LabelTrial, ...] = ()
    error: str = ""
    repair: str = ""
    dtype: str = ""
    bottomless: bool = False
    low: float = math.nan
    high: float = math.nan
    reason: str = ""


@dataclass(frozen=True)
class TargetReach:
    """The constant output that the loss likes best, for all samples and for the lowest and highest quarter of them.

    `mean` and `std` are those of what the model gives now.
    """

    name: str
    best: float
    lowest: float
    highest: float
    mean: float
    std: float
    target_mean: float
    target_std: float

    @property
    def spread(self) -> float:
        """How far apart the best outputs for low and for high targets are."""
        return abs(self.highest - self.lowest)


@dataclass(frozen=True)
class PaddingTrial:
    """Padding in the inputs, and what it does to the prediction and the loss.

    `share` is the part of all places that is padding. `influence` is the relative change of a prediction when the
    padding of its sample is cut off, None where the model cannot be run without; `noise` is the same for the identical
    input, 0 for a model that is deterministic in eval mode. `in_loss` is the share of the gradient at the outputs that
    comes from places that are padding, None where outputs have no places. Padding before the data (not `at_end`) is
    read first and forgotten by a network that reads on.
    """

    name: str
    value: float
    share: float
    samples: int
    longest: int
    influence: float | None = None
    in_loss: float | None = None
    at_end: bool = True
    noise: float = 0.0
    reason: str = ""
