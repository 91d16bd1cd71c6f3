"""How the loss answers when it is handed made-up outputs."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["HeadResponse", "LossResponse", "TargetKind"]


@dataclass(frozen=True)
class TargetKind:
    """What one target tensor holds, over several batches.

    `integral` says that all values are whole numbers; `one_hot`, `many_hot` are the shares of rows of 0 and 1 with
    exactly one and with another number of ones; `sums_to_one` that each row is a distribution. `order_p` is the
    p-value of "classes with neighboring numbers have inputs that are more alike", where it could be tested.
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
    `offset` is the loss of outputs that are all zero, relative to its weights: a likelihood has none.
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
    offset: float = 0.0

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
        """The loss as a message names it; code names are in backticks."""
        name = self.loss_name if self.loss_name.startswith("the ") else f"`{self.loss_name}`"
        return f"{name} (assumed)" if self.assumed else name

    @property
    def begins(self) -> str:
        """The loss as the first words of a message."""
        return self.named[:1].upper() + self.named[1:] if self.named.startswith("the ") else self.named
