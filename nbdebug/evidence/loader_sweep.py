"""Look through the training data."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from torch.nn.parameter import is_lazy

from nbdebug.core.control import Control
from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.loader_sweep_tally import PartFacts, PartTally, grouped, keys_of, labels_of
from nbdebug.setup import Batch, Setup
from nbdebug.setup.read_samples import Draw, at_random, in_order

__all__ = ["LoaderSweep", "OrderedLook", "SampleFailure", "loader_sweep"]


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
        """Return the facts of the input or target with this name."""
        return next((part for part in self.parts if part.name == name), None)

    def class_labels(self) -> dict[str, np.ndarray]:
        """Return the labels that are classes: integers, or numbers that are only 0 and 1."""
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


ORDERED_BATCHES = 64
ORDERED_SAMPLES = 1024
ORDERED_SHARE = 0.35  # of the time; the rest is for randomly chosen samples set
FAILURES_KEPT = 20
LARGE = 30_000_000  # values of large samples after which a part of the samples asked for is enough …
PART = 16  # … namely this part


@dataclass
class _Tally:
    """Everything that is added up over the samples."""

    parts: dict[tuple[str, str], PartTally] = field(default_factory=dict)
    indices: list[int] = field(default_factory=list)
    keys: list[np.ndarray] = field(default_factory=list)
    blank: list[np.ndarray] = field(default_factory=list)
    labels: dict[str, list[np.ndarray]] = field(default_factory=dict)
    seen: int = 0

    def add(self, draw: Draw) -> None:
        """Count one batch in."""
        batch = draw.batch
        if batch is None:
            return
        blank = np.ones(batch.size, bool)
        for (name, role), tensors in grouped(batch).items():
            tally = self.parts.get((name, role)) or PartTally(name, role, tensors[0], batch.size)
            self.parts[name, role] = tally
            for tensor in tensors:
                even = tally.add(tensor, batch.size, draw.indices)
                if role == "input" and tally.width > 1:
                    blank = blank & even if len(even) == batch.size else np.zeros(batch.size, bool)
        wide = any(role == "input" and tally.width > 1 for (_, role), tally in self.parts.items())
        self.blank.append(blank if wide else np.zeros(batch.size, bool))
        keys = keys_of(batch)
        self.keys += [keys] if keys is not None else []
        for name, labels in labels_of(batch).items():
            self.labels.setdefault(name, []).append(labels)
        self.indices.extend(draw.indices)
        self.seen += batch.size

    def has_enough(self, wanted: int) -> bool:
        """Whether so many samples were seen, or fewer of large ones."""
        values = sum(part.values for part in self.parts.values())
        return self.seen >= wanted or (values >= LARGE and self.seen >= wanted // PART)

    def whole_labels(self) -> dict[str, np.ndarray]:
        """Return the labels of the targets that every batch had as one number a sample."""
        joined = {name: np.concatenate(parts) for name, parts in self.labels.items()}
        return {name: labels for name, labels in joined.items() if len(labels) == self.seen}


@dataclass
class _Order:
    """The first batches as the loader gives them."""

    sizes: list[int] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)
    distinct: list[int] = field(default_factory=list)
    labels: dict[str, list[np.ndarray]] = field(default_factory=dict)

    def add(self, batch: Batch) -> None:
        """Note one batch."""
        self.sizes.append(batch.size)
        keys = keys_of(batch)
        if keys is not None:
            self.keys.append(hash(tuple(np.sort(keys).tolist())))
            self.distinct.append(len(np.unique(keys)))
        for name, labels in labels_of(batch).items():
            self.labels.setdefault(name, []).append(labels)

    def look(self, complete: bool) -> OrderedLook:
        """Return what was noted."""
        labels = {n: np.concatenate(p) for n, p in self.labels.items() if sum(map(len, p)) == sum(self.sizes)}
        return OrderedLook(tuple(self.sizes), tuple(self.keys), tuple(self.distinct), labels, complete)


@probe
def loader_sweep(setup: Setup, control: Control) -> LoaderSweep:
    """Scan the training data: the first batches in order, and randomly chosen samples."""
    begin, feed = time.monotonic(), setup.feed
    until = begin + setup.sweep_seconds
    order, tally, failures = _Order(), _Tally(), list[Draw]()
    complete, stream = _look_in_order(setup, control, order, failures, begin, tally)
    draws = at_random(feed, setup.wrap, until, control.poll)
    if draws is not None:
        tally = _Tally()
    late = _fill(tally, draws if draws is not None else stream, failures, setup, control, begin)
    failed = list({failure.index: failure for draw in failures for failure in draw.failures}.values())
    complete_pass = tally.seen >= (feed.total or 1 << 62) or (complete and (feed.total is None or draws is None))
    return LoaderSweep(
        total=feed.total,
        seen=tally.seen,
        way="all" if complete_pass else "random" if draws is not None else "first",
        seconds=time.monotonic() - begin,
        stopped=f"after {setup.sweep_seconds:g} s" if late else "",
        batch_size=getattr(feed.loader, "batch_size", None),
        parts=tuple(part.facts() for part in tally.parts.values()),
        indices=np.array(tally.indices, np.int64),
        keys=np.concatenate(tally.keys) if tally.keys and sum(map(len, tally.keys)) == tally.seen else None,
        blank=np.concatenate(tally.blank) if tally.blank else np.zeros(0, bool),
        labels=tally.whole_labels(),
        ordered=order.look(complete),
        failures=tuple(SampleFailure(f.index, f.doing, f.error) for f in failed[:FAILURES_KEPT]),
        failed=len(failed),
        trainable=sum(p.numel() for p in setup.model.parameters() if p.requires_grad and not is_lazy(p)),
    )


def _look_in_order(
    setup: Setup, control: Control, order: _Order, failures: list[Draw], begin: float, tally: _Tally
) -> tuple[bool, Iterator[Draw]]:
    """Read the first batches; give whether the loader ended there, and the rest of it."""
    until = begin + ORDERED_SHARE * setup.sweep_seconds
    indexed = setup.feed.dataset is not None  # otherwise the rest of the stream is all there is to draw from
    stream = in_order(setup.feed, setup.wrap, until if indexed else begin + setup.sweep_seconds, control.poll)
    for draw in stream:
        failures += [draw] if draw.failures else []
        tally.add(draw)
        if draw.batch is not None:
            order.add(draw.batch)
        control.progress(0.3 * tally.seen / ORDERED_SAMPLES, f"{tally.seen} samples in loader order")
        wanted = min(ORDERED_SAMPLES, setup.sweep_samples)
        enough = len(order.sizes) >= ORDERED_BATCHES or tally.has_enough(wanted)
        if draw.late or enough or time.monotonic() > until:
            return False, stream
    return True, stream


def _fill(
    tally: _Tally, draws: Iterator[Draw], failures: list[Draw], setup: Setup, control: Control, begin: float
) -> bool:
    """Count samples in until there are enough or the time is over; say whether it was."""
    late = False
    for draw in draws:
        tally.add(draw)
        failures += [draw] if draw.failures else []
        late = draw.late or time.monotonic() - begin > setup.sweep_seconds
        part = max(tally.seen / setup.sweep_samples, (time.monotonic() - begin) / setup.sweep_seconds)
        control.progress(0.3 + 0.7 * min(part, 1.0), f"{tally.seen} randomly chosen samples")
        if late or tally.has_enough(setup.sweep_samples):
            break
    return late
