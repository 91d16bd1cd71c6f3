"""Buckets of steps: the rows of one level of a history, and how several of them are joined to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["Buckets", "Level", "folded"]


class Buckets(NamedTuple):
    """Buckets, oldest first: the last step of each, mean, lowest and highest value of each column, and the counts.

    `counts` are the steps of a bucket, `known` the finite values of each column among them, which its mean is made of.
    Where every bucket is one step, `data` holds the value once instead of three times.
    """

    steps: np.ndarray
    data: np.ndarray  # buckets by statistics by columns
    counts: np.ndarray
    known: np.ndarray  # buckets by columns


class Level:
    """Buckets of one width; memory grows with use up to the capacity. Of single steps only the values are held."""

    def __init__(self, columns: int, capacity: int, kind: type[np.floating], *, is_exact: bool) -> None:
        self.capacity, self.used, self._is_exact = capacity, 0, is_exact
        self._parts = [np.zeros(0, np.int64), np.zeros((0, 1 if is_exact else 3, columns), kind)]
        if not is_exact:
            self._parts += [np.zeros(0, np.int32), np.zeros((0, columns), np.int32)]

    def push(self, parts: Sequence[np.ndarray]) -> None:
        """Add buckets; single steps are their numbers and values only."""
        end = self.used + len(parts[0])
        if end > len(self._parts[0]):
            self._grow(end)
        for held, new in zip(self._parts, parts, strict=True):
            held[self.used : end] = new
        self.used = end

    def _grow(self, needed: int) -> None:
        rows = min(self.capacity, max(needed, 2 * len(self._parts[0]), 64))
        for place, old in enumerate(self._parts):
            self._parts[place] = np.zeros((rows, *old.shape[1:]), old.dtype)
            self._parts[place][: len(old)] = old

    def take_oldest(self, rows: int) -> Buckets:
        """Take buckets out."""
        taken = [part[:rows].copy() for part in self._parts]
        for part in self._parts:
            part[: self.used - rows] = part[rows : self.used].copy()
        self.used -= rows
        return self._whole(taken)

    def take_newest(self) -> np.ndarray:
        """Take the newest bucket out, and give its numbers."""
        self.used -= 1
        newest: np.ndarray = self._parts[1][self.used].copy()
        return newest

    def refill(self, older: Buckets) -> None:
        """Put buckets in front of those that are left."""
        rest = self.take_oldest(self.used)
        self.push(older)
        self.push(rest)

    def content(self) -> Buckets:
        """Return what is held; it changes with the level."""
        return self._whole([part[: self.used] for part in self._parts])

    def _whole(self, parts: list[np.ndarray]) -> Buckets:
        if not self._is_exact:
            return Buckets(*parts)
        steps, data = parts
        return Buckets(steps, data, np.ones(len(steps), np.int32), np.isfinite(data[:, 0]).astype(np.int32))

    @property
    def last_step(self) -> int:
        """The newest step; -1 where there is none."""
        return int(self._parts[0][self.used - 1]) if self.used else -1

    @property
    def nbytes(self) -> int:
        """The bytes that are held now."""
        return sum(int(part.nbytes) for part in self._parts)


def folded(old: Buckets, factor: int) -> Buckets:
    """Join every `factor` buckets to one; what is not finite is left out of its numbers."""
    shape = (len(old.steps) // factor, factor)
    known = old.known.reshape(*shape, -1)
    data = old.data.reshape(*shape, *old.data.shape[1:])
    if not known.all():
        data = np.where(known[:, :, None] > 0, data, data.dtype.type(np.nan))
    low = np.fmin.reduce(data[:, :, 1 % data.shape[2]], axis=1)
    high = np.fmax.reduce(data[:, :, 2 % data.shape[2]], axis=1)
    total = known.sum(axis=1, dtype=np.int32)
    # Rounding must not carry a mean out of the range of what it is the mean of.
    mean = np.minimum(np.maximum(_mean(data[:, :, 0], known, total), low), high)
    joined = np.stack([mean, low, high], axis=1).astype(data.dtype)
    counts = old.counts.reshape(shape).sum(axis=1, dtype=np.int32)
    return Buckets(old.steps.reshape(shape)[:, -1], joined, counts, total)


def _mean(values: np.ndarray, weights: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Return the weighted mean along the second axis; NaN where nothing has any weight."""
    if not weights.all():
        values = np.where(weights > 0, values, 0.0)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        mean: np.ndarray = (values * weights).sum(axis=1) / total
        if np.isinf(mean).any():  # the sum is too large for a float, though the mean is not
            mean = (values * (weights / total[:, None])).sum(axis=1)
    return mean
