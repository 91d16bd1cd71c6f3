"""One batch as a person looks at it: every input and target of it in the form that suits its kind, sample by sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nbdebug.setup.recognition import Kind

__all__ = ["BatchView", "Kind", "Part", "Role", "SampleFacts", "SampleView", "TokenLine", "Waveform"]

Role = Literal["input", "target", "prediction"]


@dataclass(frozen=True)
class TokenLine:
    """The tokens of one sample as words, which of them are padding, and how many more there are."""

    words: tuple[str, ...]
    padding: tuple[bool, ...]
    more: int = 0


@dataclass(frozen=True)
class Waveform:
    """One sample over time: the lowest and the highest value of each stretch, channel by channel."""

    low: np.ndarray  # channels × stretches
    high: np.ndarray
    steps: int
    more: int = 0  # channels that are not drawn


@dataclass(frozen=True)
class Part:
    """One input or target: how it is shown, what was recognized and undone for that, and one item a sample.

    An item is a picture (uint8, height × width × 3 or × 4), a row of numbers, a `TokenLine`, a `Waveform` or a text.
    """

    name: str
    role: Role
    kind: Kind
    shape: tuple[int, ...]
    dtype: str
    says: tuple[str, ...]
    items: tuple[Any, ...]
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class SampleFacts:
    """One sample: its place in the data set, its target in words and, with a model, what the model makes of it."""

    index: int | None
    target: str = ""
    predicted: str = ""
    confidence: float | None = None
    loss: float | None = None
    right: bool | None = None


@dataclass(frozen=True)
class BatchView:
    """The whole batch: its parts, its samples, and what has to be said about it."""

    number: int  # counted from 1
    of: int | None
    size: int
    parts: tuple[Part, ...]
    samples: tuple[SampleFacts, ...]
    notes: tuple[str, ...] = ()
    model: str = ""
    draws: int = 1  # how often these samples were drawn
    class_counts: tuple[tuple[str, int], ...] = ()  # of the whole batch, the most frequent first
    can_redraw: bool = False  # whether the same samples can be read again

    @property
    def wrong(self) -> int | None:
        """How many predictions are wrong; None where that cannot be said."""
        known = [sample.right for sample in self.samples if sample.right is not None]
        return known.count(False) if known else None


@dataclass(frozen=True)
class SampleView:
    """One sample by itself: large, drawn several times, and as it is before the transforms of its data set."""

    index: int | None
    large: tuple[Part, ...]
    draws: tuple[Part, ...] = ()
    raw: tuple[Part, ...] = ()
    notes: tuple[str, ...] = ()
