"""What the views of layers and parameters show: histograms, norms and costs, measured on one batch."""

from __future__ import annotations

from dataclasses import dataclass

from nbdebug.evidence.tensors import TensorFacts

__all__ = [
    "ActivationLook",
    "Histogram",
    "LayerCost",
    "LayerCosts",
    "LayerLook",
    "ParameterLook",
    "ParameterLooks",
]


@dataclass(frozen=True)
class Histogram:
    """Counts in bins of equal width from the lowest to the highest value."""

    low: float
    high: float
    counts: tuple[int, ...]


@dataclass(frozen=True)
class LayerLook:
    """The values that one module gave, or that a function of the forward made of them.

    `counts` are over the common edges of all layers, `own` over the layer's own range. `before` is what went into a
    nonlinearity. `dead` and `saturated` are shares of units, None where the question makes no sense.
    """

    path: str
    module: str
    facts: TensorFacts
    counts: tuple[int, ...]
    own: Histogram | None
    before: Histogram | None = None
    dead: float | None = None
    saturated: float | None = None
    calls: int = 1


@dataclass(frozen=True)
class ActivationLook:
    """Every layer of one pass in the order of the calls, over common edges."""

    layers: tuple[LayerLook, ...]
    edges: tuple[float, ...]
    is_log: bool
    samples: int
    training: bool


@dataclass(frozen=True)
class ParameterLook:
    """One parameter: its norm, that of its gradient, and the change by one step relative to its size."""

    name: str
    shape: tuple[int, ...]
    trained: bool
    weight: float
    gradient: float | None  # None where none came
    update: float | None
    weights: Histogram | None
    gradients: Histogram | None


@dataclass(frozen=True)
class ParameterLooks:
    """All parameters of a model after one backward pass and one step on a copy."""

    parameters: tuple[ParameterLook, ...]
    loss: float
    optimizer: str
    samples: int


@dataclass(frozen=True)
class LayerCost:
    """One module: what goes in and out, and what it costs. Seconds include what it calls."""

    path: str
    module: str
    depth: int
    is_leaf: bool
    inputs: tuple[tuple[int, ...], ...]
    output: tuple[int, ...]
    parameters: int  # its own and those of what it holds
    trainable: int
    seconds: float
    flops: int | None
    output_bytes: int
    parameter_bytes: int
    calls: int
    order: int = -1  # of its first call among the innermost modules; -1 where it is none of them
    sources: tuple[str, ...] = ()  # the innermost modules that it takes from


@dataclass(frozen=True)
class LayerCosts:
    """Every module of a model in the order of definition; one that was not called has no calls."""

    layers: tuple[LayerCost, ...]
    samples: int
    device: str
    training: bool
