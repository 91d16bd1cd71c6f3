"""What a look through the loader shows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from nbdebug.errors import NotApplicable

__all__ = ["BatchRepeats", "LoaderSweep", "OrderedLook", "PartFacts", "SampleFailure"]


@dataclass(frozen=True)
class PartFacts:
    """One input or target over all samples drawn: statistics are of the finite values, the others are counted.

    `shape` and `width` are of one sample. `rows` holds some samples (at most 512) at some evenly spaced places of the
    flattened sample (`places`, at most 256). `whole` says that every value is a whole number; `constant` counts samples
    that are one value all over, `varies` says whether samples differ from one another at all.
    """

    name: str
    role: str  # "input" or "target"
    dtype: str
    shape: tuple[int, ...]
    width: int
    samples: int = 0
    values: int = 0
    nan: int = 0
    positive_inf: int = 0
    negative_inf: int = 0
    bad_samples: int = 0
    first_bad: int | None = None
    bad_columns: tuple[int, ...] = ()
    low: float = math.nan
    high: float = math.nan
    mean: float = math.nan
    std: float = math.nan
    zeros: float = math.nan
    whole: bool = False
    varies: bool = True
    constant: int = 0
    constant_columns: tuple[int, ...] | None = None
    places: tuple[int, ...] = ()
    rows: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.float32))

    @property
    def is_float(self) -> bool:
        """Whether the values are stored as real numbers."""
        return self.dtype.startswith(("float", "bfloat", "complex"))

    @property
    def bad(self) -> int:
        """How many values are NaN or infinite."""
        return self.nan + self.positive_inf + self.negative_inf


@dataclass(frozen=True)
class SampleFailure:
    """A sample that could not be had: its index, what was being done (reading or collating), and the error."""

    index: int
    doing: str
    error: str


@dataclass(frozen=True)
class OrderedLook:
    """The first batches in the loader's own order: sizes, contents as digests, and labels one after the other."""

    sizes: tuple[int, ...] = ()
    batch_keys: tuple[int, ...] = ()
    distinct: tuple[int, ...] = ()  # different samples in each batch
    labels: dict[str, np.ndarray] = field(default_factory=dict)
    complete: bool = False  # the loader ended by itself


@dataclass(frozen=True)
class BatchRepeats:
    """How often the same batch came again: in the loader's first batches, or in the steps of a real training.

    `in_a_row` is how many times in a row one batch came at most; `one_pass` says that no batch is due a second time,
    as it is in a second epoch. `is_inner` says that the loop has inner ones, which work on one batch for many steps.
    """

    unit: str
    seen: int
    distinct: int
    most: int
    in_a_row: int
    one_pass: bool
    complete: bool = False
    is_inner: bool = False


@dataclass(frozen=True)
class LoaderSweep:
    """A bounded look through the training data: samples chosen at random over all of it, and the first batches.

    `way` says how the samples were chosen: random, all, or first (a stream that cannot be read elsewhere). Arrays
    have one entry a sample: its index, a digest of its inputs, and its label for each target that is one number.
    `blank` marks samples all of whose inputs are one value all over.
    """

    total: int | None
    seen: int
    way: str
    seconds: float
    stopped: str = ""
    batch_size: int | None = None
    parts: tuple[PartFacts, ...] = ()
    indices: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    keys: np.ndarray | None = None
    blank: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))
    labels: dict[str, np.ndarray] = field(default_factory=dict)
    ordered: OrderedLook = OrderedLook()
    failures: tuple[SampleFailure, ...] = ()
    failed: int = 0
    trainable: int = 0  # parameters of the model that are trained

    @property
    def inputs(self) -> tuple[PartFacts, ...]:
        """What the model receives."""
        return tuple(part for part in self.parts if part.role == "input")

    @property
    def targets(self) -> tuple[PartFacts, ...]:
        """What the outputs are compared with."""
        return tuple(part for part in self.parts if part.role == "target")

    @property
    def says(self) -> str:
        """Return how many samples were read, of how many, and how they were chosen."""
        if self.way == "all":
            return f"all {self.seen} samples"
        of = f" of {self.total}" if self.total is not None else ""
        return f"{self.seen}{of} samples ({'chosen at random' if self.way == 'random' else 'the first ones'})"

    def part(self, name: str) -> PartFacts | None:
        """Give the facts of the input or target with this name."""
        return next((part for part in self.parts if part.name == name), None)

    def class_labels(self) -> dict[str, np.ndarray]:
        """Give the labels that are classes: integers, or numbers that are only 0 and 1."""
        found = {}
        for name, labels in self.labels.items():
            part = self.part(name)
            if part is not None and len(labels) and np.isfinite(labels).all():
                one_hot = part.width > 1
                if one_hot or not part.is_float or set(np.unique(labels)) <= {0.0, 1.0}:
                    found[name] = labels.astype(np.int64)
        return found

    def require(self, least: int = 1) -> None:
        """Raise NotApplicable if there are too few samples."""
        if self.seen == 0 or not self.ordered.sizes:
            raise NotApplicable("no batch could be loaded; see empty-loader and sample-fails")
        if self.seen < least:
            raise NotApplicable(f"only {self.seen} samples are available; {least} are needed")
