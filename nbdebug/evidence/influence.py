"""What the outputs depend on, and what they do not: the future, the batch size, single inputs, any input."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BatchSizes", "FutureInfluence", "IgnoredPart", "InputInfluence", "OutputResponse", "SizeFailure"]


@dataclass(frozen=True)
class FutureInfluence:
    """How much the outputs up to some step change when only later inputs are changed, for next-step targets.

    `agreement` is the share of targets that equal the next input. `unshifted` says that the target is the input itself,
    that the loss does not shift it, and that the model sees nothing but the past and the present.
    """

    agreement: float
    influence: float
    noise: float
    steps: int
    key: str
    first: str = ""
    first_module: str = ""
    place: str = ""
    unshifted: bool = False


@dataclass(frozen=True)
class SizeFailure:
    """One batch size that does not work: where it failed, and what was seen there.

    `kept` names what the model keeps from the call before, where that, and no number in the model, has another size.
    """

    size: int
    mode: str
    where: str
    module: str
    error: str
    shapes: tuple[tuple[int, ...], ...] = ()
    source: str = ""
    kept: tuple[str, ...] = ()


@dataclass(frozen=True)
class BatchSizes:
    """Which batch sizes the model runs with, apart from its own."""

    own: int
    tried: tuple[int, ...]
    failures: tuple[SizeFailure, ...]
    meets_others: bool  # whether the loaders give batches of another size as well
    single: bool  # whether one batch, put together by hand, is all that there is, as for one whole graph
    sure: bool = True  # whether the first dimension is surely that of the samples
    resets: tuple[str, ...] = ()  # methods of the model that may reset what it keeps between calls


@dataclass(frozen=True)
class IgnoredPart:
    """A part of the inputs without any influence: a whole key, or indices along one of its dimensions."""

    key: str
    part: str  # "input", "column", "channel" or "step"
    indices: tuple[int, ...] = ()
    of: int = 0


@dataclass(frozen=True)
class InputInfluence:
    """Which parts of the inputs change nothing when they are exchanged between samples, in either mode."""

    tested: tuple[str, ...]
    untested: tuple[str, ...]
    ignored: tuple[IgnoredPart, ...]
    batches: int
    by_name: bool  # forward takes a container with names, some of which may be meant for others
    windowed: bool  # the model uses convolutions or pooling, which may leave out what is at the border
    foretells_itself: bool = False  # an input is the target too: the last in the order of foretelling is never needed


@dataclass(frozen=True)
class OutputResponse:
    """How much the outputs change from one batch to another, relative to their size.

    `shaken` says that they are the same only until the parameters are moved a little, as behind a layer that begins at
    zero.
    """

    response: float
    inputs_differ: bool
    shaken: bool
    samples: int
    first: str = ""
    first_module: str = ""
    place: str = ""
    value: float = 0.0
