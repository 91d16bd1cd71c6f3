"""Whether every parameter of a model can learn."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "GradientReach",
    "HiddenParameter",
    "HiddenParameters",
    "OptimizerCoverage",
    "ParameterReach",
    "ReachCut",
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
    beside_trained: bool = False  # whether what trained weights give is added to what its module gives
    is_lookup: bool = False  # whether its module turns integers into vectors
    shifts_layer: bool = False  # whether what its module gives depends on it, though the answer does not
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
    is_watched: bool = False  # in a real training, in which nobody replaces values; then `batches` counts steps

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
    optimizer, which the user's own functions reach for, holds. `shapes` has the parameters in the order of the model.
    `all_reached` says that of the missing ones only those are named to which gradients came.
    """

    optimizer: str
    held: tuple[str, ...]
    missing: tuple[str, ...]
    shapes: dict[str, tuple[int, ...]]
    strays: tuple[tuple[int, ...], ...]
    elsewhere: tuple[str, ...]
    all_reached: bool = False
    waiting: tuple[str, ...] = ()  # held, and no gradient but zeros ever came, in a training that was watched
    waiting_zero: tuple[str, ...] = ()  # of these, whose gradient is there and exactly zero
    waiting_moved: tuple[str, ...] = ()  # of these, that something else moves
