"""What becomes of the numbers on their way forward and back."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CustomGradient", "CustomGradients", "FinitePasses", "NonFinite"]


@dataclass(frozen=True)
class NonFinite:
    """One place where a NaN or an infinity was born, and where it was noticed.

    `operation` is "parameter", "buffer" or "input" when it was there from the beginning; `values` are the numbers that
    the operation was given where its result is bad.
    """

    kind: str  # "NaN" or "inf"
    operation: str
    where: str
    module: str
    source: str
    values: tuple[str, ...]
    dtype: str
    position: tuple[int, ...]
    reached: str
    batch: int
    mode: str


@dataclass(frozen=True)
class FinitePasses:
    """Whether outputs, loss and gradients stay finite over several batches, in training and in eval mode."""

    batches: int
    forward: NonFinite | None = None
    backward: NonFinite | None = None
    quiet: NonFinite | None = None  # NaN in the outputs that neither the loss nor a gradient gets to see
    bad_inputs: int = 0
    has_gradient: bool = True


@dataclass(frozen=True)
class CustomGradient:
    """The gradient that one autograd.Function gives for one of its arguments against finite differences of its forward.

    `ratio` is given over measured, by least squares; `error` the distance between the two relative to their size.
    `nature` is "smooth", "steps" where the forward is flat almost everywhere, or "identity".
    """

    function: str
    argument: str
    where: str
    nature: str
    error: float
    ratio: float
    probed: int
    flat_but_given: int = 0
    missing: bool = False
    precision: str = "double"


@dataclass(frozen=True)
class CustomGradients:
    """All functions with a backward of their own that one pass uses."""

    functions: tuple[str, ...]
    gradients: tuple[CustomGradient, ...]
