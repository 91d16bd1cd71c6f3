"""Look through the training data."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from torch.nn.parameter import is_lazy as _is_lazy

from nbdebug.control import Control
from nbdebug.evidence import LoaderSweep, OrderedLook, SampleFailure
from nbdebug.probes.sweep_tally import PartTally, grouped, keys_of, labels_of
from nbdebug.registry import probe
from nbdebug.subject import Batch, Subject
from nbdebug.subject.sampling import Draw, at_random, in_order

__all__ = ["loader_sweep"]

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
        """Give the labels of the targets that every batch had as one number a sample."""
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
        """Give what was noted."""
        labels = {n: np.concatenate(p) for n, p in self.labels.items() if sum(map(len, p)) == sum(self.sizes)}
        return OrderedLook(tuple(self.sizes), tuple(self.keys), tuple(self.distinct), labels, complete)


@probe
def loader_sweep(subject: Subject, control: Control) -> LoaderSweep:
    """Scan the training data: the first batches in order, and randomly chosen samples."""
    begin, feed = time.monotonic(), subject.feed
    until = begin + subject.sweep_seconds
    order, tally, failures = _Order(), _Tally(), list[Draw]()
    complete, stream = _look_in_order(subject, control, order, failures, begin, tally)
    draws = at_random(feed, subject.wrap, until, control.poll)
    if draws is not None:
        tally = _Tally()
    late = _fill(tally, draws if draws is not None else stream, failures, subject, control, begin)
    failed = list({failure.index: failure for draw in failures for failure in draw.failures}.values())
    complete_pass = tally.seen >= (feed.total or 1 << 62) or (complete and (feed.total is None or draws is None))
    return LoaderSweep(
        total=feed.total,
        seen=tally.seen,
        way="all" if complete_pass else "random" if draws is not None else "first",
        seconds=time.monotonic() - begin,
        stopped=f"after {subject.sweep_seconds:g} s" if late else "",
        batch_size=getattr(feed.loader, "batch_size", None),
        parts=tuple(part.facts() for part in tally.parts.values()),
        indices=np.array(tally.indices, np.int64),
        keys=np.concatenate(tally.keys) if tally.keys and sum(map(len, tally.keys)) == tally.seen else None,
        blank=np.concatenate(tally.blank) if tally.blank else np.zeros(0, bool),
        labels=tally.whole_labels(),
        ordered=order.look(complete),
        failures=tuple(SampleFailure(f.index, f.doing, f.error) for f in failed[:FAILURES_KEPT]),
        failed=len(failed),
        trainable=sum(p.numel() for p in subject.model.parameters() if p.requires_grad and not _is_lazy(p)),
    )


def _look_in_order(
    subject: Subject, control: Control, order: _Order, failures: list[Draw], begin: float, tally: _Tally
) -> tuple[bool, Iterator[Draw]]:
    """Read the first batches; give whether the loader ended there, and the rest of it."""
    until = begin + ORDERED_SHARE * subject.sweep_seconds
    indexed = subject.feed.dataset is not None  # otherwise the rest of the stream is all there is to draw from
    stream = in_order(subject.feed, subject.wrap, until if indexed else begin + subject.sweep_seconds, control.poll)
    for draw in stream:
        failures += [draw] if draw.failures else []
        tally.add(draw)
        if draw.batch is not None:
            order.add(draw.batch)
        control.progress(0.3 * tally.seen / ORDERED_SAMPLES, f"{tally.seen} samples in loader order")
        wanted = min(ORDERED_SAMPLES, subject.sweep_samples)
        enough = len(order.sizes) >= ORDERED_BATCHES or tally.has_enough(wanted)
        if draw.late or enough or time.monotonic() > until:
            return False, stream
    return True, stream


def _fill(
    tally: _Tally, draws: Iterator[Draw], failures: list[Draw], subject: Subject, control: Control, begin: float
) -> bool:
    """Count samples in until there are enough or the time is over; say whether it was."""
    late = False
    for draw in draws:
        tally.add(draw)
        failures += [draw] if draw.failures else []
        late = draw.late or time.monotonic() - begin > subject.sweep_seconds
        part = max(tally.seen / subject.sweep_samples, (time.monotonic() - begin) / subject.sweep_seconds)
        control.progress(0.3 + 0.7 * min(part, 1.0), f"{tally.seen} randomly chosen samples")
        if late or tally.has_enough(subject.sweep_samples):
            break
    return late
