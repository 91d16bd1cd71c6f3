"""Sequences: which entries of a batch hold one thing per position, and which of them the targets equal."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from nbdebug.experiments.compared_positions import SHORTEST, Compared, compared
from nbdebug.experiments.tape import Tape
from nbdebug.setup import Batch
from nbdebug.setup.nested import leaves, map_leaves, name_of

__all__ = ["Match", "Stream", "exchanged", "matches", "streams"]


KINDS = 3  # different values that a sequence needs, for an equality to mean something
FARTHEST = 8  # offsets of a target of the same length that are tried, in both directions


@dataclass(frozen=True)
class Stream:
    """An entry of the batch with one token, or one vector of numbers, per position."""

    name: str
    raw: torch.Tensor
    sample_dim: int
    time_dim: int

    @property
    def steps(self) -> torch.Tensor:
        """The values as (samples, positions, features)."""
        return _steps(self.raw, self.sample_dim, self.time_dim)

    @property
    def content(self) -> torch.Tensor:
        """The same, with the number of the class where a position holds a one-hot vector."""
        steps = self.steps
        is_one_hot = self.is_real and steps.shape[2] > 2 and bool(((steps == 0) | (steps == 1)).all())
        return steps.argmax(2, keepdim=True) if is_one_hot and bool((steps.sum(2) == 1).all()) else steps

    @property
    def is_real(self) -> bool:
        """Whether it holds real numbers and not ids."""
        return self.raw.is_floating_point()

    @property
    def is_tokens(self) -> bool:
        """Whether each position holds the number of a class, as an id or as a one-hot vector."""
        return not self.is_real or self.content.shape != self.steps.shape

    @property
    def length(self) -> int:
        """The number of positions."""
        return int(self.raw.shape[self.time_dim])


@dataclass(frozen=True)
class Match:
    """An entry that the target equals: the target at position `j` is the entry's value at `j + offset`."""

    stream: Stream
    seen: Compared
    offset: int
    agreement: float
    runner_up: float  # of any other offset


def streams(batch: Batch, size: int, axis: int = 0) -> list[Stream]:
    """Return the entries of a batch, targets too, that may be sequences, the samples along `axis`."""
    found = []
    for path, leaf in leaves(batch.raw):
        if not isinstance(leaf, torch.Tensor) or leaf.layout is not torch.strided or leaf.is_complex():
            continue
        if leaf.dtype == torch.bool or leaf.dim() not in (2, 3) or leaf.shape[axis] != size:
            continue
        if not leaf.is_floating_point() and leaf.dim() == 3:
            continue
        found += [Stream(name_of(path), leaf, axis, dim) for dim in range(leaf.dim()) if dim != axis]
    return [stream for stream in found if stream.length >= SHORTEST and _varies(stream.content)]


def _varies(values: torch.Tensor) -> bool:
    return len(values.flatten()[:4096].unique()) >= KINDS


def _steps(raw: torch.Tensor, sample_dim: int, time_dim: int) -> torch.Tensor:
    moved = raw.movedim((sample_dim, time_dim), (0, 1))
    return moved.reshape(*moved.shape[:2], -1)


def matches(batch: Batch, tape: Tape, size: int, *, least: float, most: float) -> list[Match]:
    """Return the entries that the target equals at some offset in at least so many positions, the best reading of each.

    Another offset that fits nearly as well (`most`), as in constant or periodic sequences, tells nothing.
    """
    found: dict[str, Match] = {}
    for axis in (0, 1):
        for reading in compared(tape, size):
            for stream in streams(batch, size, axis):
                match = _matched(stream, reading)
                if match is None or match.agreement < least or match.runner_up > most:
                    continue
                if stream.name not in found or match.agreement > found[stream.name].agreement:
                    found[stream.name] = match
    return list(found.values())


def _matched(stream: Stream, seen: Compared) -> Match | None:
    content, target = stream.content, seen.target
    if content.shape[2] != target.shape[2] or not bool(seen.counted.any()):
        return None
    wanted = target[seen.counted]
    if len(wanted.flatten()[:4096].unique()) < KINDS:
        return None
    ahead = max(stream.length - target.shape[1], 0) + FARTHEST
    shares = {d: share for d in range(-FARTHEST, ahead + 1) if (share := _share(content, target, seen.counted, d))}
    if not shares:
        return None
    best = max(shares, key=lambda d: shares[d])
    others = [share for d, share in shares.items() if d != best]
    return Match(stream, seen, best, shares[best], max(others, default=0.0))


def _share(content: torch.Tensor, target: torch.Tensor, counted: torch.Tensor, offset: int) -> float | None:
    """Return the share of the counted targets that equal the content so many positions later."""
    length, wanted = content.shape[1], target.shape[1]
    begin, end = max(0, -offset), min(wanted, length - offset)
    if end - begin < 1:
        return None
    kept = counted[:, begin:end]
    if int(kept.sum()) < max(SHORTEST, 0.5 * int(counted.sum())):
        return None
    same = (content[:, begin + offset : end + offset].to(target.dtype) == target[:, begin:end]).all(2)
    return float(same[kept].double().mean())


def exchanged(batch: Batch, stream: Stream, places: dict[int, slice]) -> Batch:
    """Return a batch in which some positions of some samples hold what another sample has there.

    What is equal there gets another value of the same entry, so that ids stay within the vocabulary.
    """
    new = stream.raw.clone()
    steps, other = (t.movedim((stream.sample_dim, stream.time_dim), (0, 1)) for t in (new, _others(stream)))
    for row, positions in places.items():
        steps[row, positions] = other[row, positions]
    return replace(batch, raw=map_leaves(lambda p, leaf: new if name_of(p) == stream.name else leaf, batch.raw))


def _others(stream: Stream) -> torch.Tensor:
    """Return other values for every place: those of another sample, unless they are the same or fill a sequence up."""
    own, other = stream.raw, stream.raw.roll(1, stream.sample_dim)
    if stream.is_real and stream.is_tokens:  # one-hot vectors
        features = ({0, 1, 2} - {stream.sample_dim, stream.time_dim}).pop()
        same = (own == other).all(features, keepdim=True)
        return torch.where(same, own.roll(1, features), other)
    if stream.is_real:
        return torch.where(other == own, own + own.std().clamp(min=1e-6), other)
    filler = stream.content[:, -1].flatten().mode().values
    known = own[own != filler].unique()
    following = known[(torch.searchsorted(known, own) + 1) % len(known)]
    return torch.where((other == own) | (other == filler), following, other)
