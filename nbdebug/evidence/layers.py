"""What the parameters and the layers of a model show before any training."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = [
    "DecayRace",
    "DropoutShares",
    "DroppedShare",
    "GradientFlow",
    "GradientReach",
    "HiddenParameter",
    "HiddenParameters",
    "InformationCuts",
    "InitialWeights",
    "LayerFlow",
    "LinearPair",
    "Linearity",
    "NarrowCut",
    "OptimizerCoverage",
    "ParameterReach",
    "ReachCut",
    "RescaledStart",
    "StepSymmetry",
    "SymmetricLayer",
    "TimeFlow",
    "Trend",
    "UnitActivity",
    "UnitFacts",
    "WeightFacts",
]


@dataclass(frozen=True)
class ParameterReach:
    """One parameter: whether a gradient comes to it, in any of several batches, and what its layer is.

    `gradients` holds one norm for each batch, None where none came. `wakes` is whether a gradient that was exactly
    zero became another one within a few steps. `influence` is the relative change of the answer when the values are
    replaced, measured only for parameters without a gradient. `owner` is the path of the module that holds it.
    """

    name: str
    owner: str
    shape: tuple[int, ...]
    requires_grad: bool
    in_optimizer: bool
    gradients: tuple[float | None, ...] = ()
    wakes: bool = False
    influence: float | None = None
    is_copy: bool = False  # a slowly moving copy of a parameter that is trained
    calls: int = 0  # how often its module was called, over all batches
    position: int = -1  # where its module stands in the order of the calls
    fed_by_trained: bool = False  # whether trained parameters lie before its module
    beside_trained: bool = False  # whether trained weights take the same input or stand in the module around it
    is_lookup: bool = False  # whether its module turns integers into vectors
    conditional: bool = False  # whether modules of the same kind beside it come and go from batch to batch

    @property
    def size(self) -> int:
        """The number of values."""
        product = 1
        for length in self.shape:
            product *= length
        return product

    @property
    def is_weight(self) -> bool:
        """Whether this is a matrix or a kernel, and not a bias, a scale or a number."""
        return len(self.shape) >= 2 and not self.is_lookup

    @property
    def is_reached(self) -> bool:
        """Whether a gradient other than zero came in any batch, or after a few steps."""
        return self.wakes or any(norm is not None and norm != 0 for norm in self.gradients)

    @property
    def is_cut(self) -> bool:
        """Whether no gradient came at all, not even zeros."""
        return all(norm is None for norm in self.gradients)


@dataclass(frozen=True)
class ReachCut:
    """A place where the way of the gradient ends: behind one module and, where it is known, before another."""

    after: str
    before: str
    parameters: tuple[str, ...]
    inside: bool = False  # the module itself gives an output without a gradient


@dataclass(frozen=True)
class GradientReach:
    """Which parameters a gradient reaches, and where it is cut off."""

    parameters: tuple[ParameterReach, ...]
    cuts: tuple[ReachCut, ...]
    batches: int
    loss: float
    loss_has_gradient: bool
    output_has_gradient: bool
    optimizer_given: bool

    @property
    def trainable(self) -> tuple[ParameterReach, ...]:
        """The parameters that ask for a gradient."""
        return tuple(p for p in self.parameters if p.requires_grad)


@dataclass(frozen=True)
class HiddenParameter:
    """A tensor that takes part in the training graph but is no parameter of the model.

    `place` is the attribute in which it hides (`blocks`), `path` the whole way to it (`blocks[0].weight`).
    """

    place: str
    path: str
    shape: tuple[int, ...]
    gradient: float
    in_optimizer: bool
    container: str


@dataclass(frozen=True)
class HiddenParameters:
    """Tensors that receive a gradient and stand in no list of parameters.

    `strangers` counts tensors of that kind which are reachable from neither the model nor the loss: those of another
    network that the loss calls, or global ones.
    """

    of_model: tuple[HiddenParameter, ...]
    of_loss: tuple[HiddenParameter, ...]
    strangers: int
    optimizer_given: bool


@dataclass(frozen=True)
class OptimizerCoverage:
    """Which of the model's trainable parameters the optimizer holds, compared by identity.

    `strays` are the shapes of what it holds that is not of this model; `elsewhere` are parameters that another
    optimizer, which the user's own functions reach for, holds.
    """

    optimizer: str
    held: tuple[str, ...]
    missing: tuple[str, ...]
    shapes: dict[str, tuple[int, ...]]
    strays: tuple[tuple[int, ...], ...]
    elsewhere: tuple[str, ...]


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
    """The weights as they are now, and whether the model is freshly initialised or already trained."""

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
        """How much lower the loss ends with the weights to scale, as a share of where that training began."""
        if not self.rescaled:
            return 0.0
        lower = _end(self.as_is, self.rescaled) - _end(self.rescaled, self.as_is)
        return lower / max(abs(self.rescaled[0]), 1e-12)

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
class UnitFacts:
    """What the units of one layer do over many samples, in eval mode.

    `dead` counts units that are zero for every sample because what goes into the activation is never positive;
    `saturated` counts units of a bounded activation whose slope is nearly zero for almost every sample. `flat` is the
    share of all values at which the slope is nearly zero.
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


@dataclass(frozen=True)
class UnitActivity:
    """The units of all layers that have an activation."""

    layers: tuple[UnitFacts, ...]
    samples: int
    all_seen: bool


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


@dataclass(frozen=True)
class DropoutShares:
    """Where training mode drops values, in the order of the calls."""

    places: tuple[DroppedShare, ...]
    looked_at: int


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
