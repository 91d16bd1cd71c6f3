"""A bounded history: recent steps exactly, older ones as mean, lowest and highest value of ever wider buckets."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nbdebug.evidence.recording import OctaveHistory, Series

__all__ = ["Track", "Waterfall", "capacity_for"]

CAPACITY, FACTOR, LEVELS = 4096, 8, 4  # 140 kB a metric, and at least the last 2048 steps exactly
TABLE_BYTES = 8_000_000  # for all the columns of one table together, so that a thousand layers stay small as well


def capacity_for(columns: int) -> int:
    """Give how many rows a level may have, so that a table of many columns stays within its bytes."""
    rows = TABLE_BYTES // (max(columns, 1) * 4 * (1 + 3 * (LEVELS - 1) // 4))
    return max(128, min(CAPACITY, 1 << int(math.log2(max(rows, 1)))))


class Track:
    """Columns that are measured at the same steps; a value that was not measured is `missing`, not NaN."""

    def __init__(self, names: Sequence[str], capacity: int = 0) -> None:
        self.names = tuple(names)
        capacity = capacity or capacity_for(len(self.names))
        wide = [_Level(len(self.names), capacity // 4, exact=False) for _ in range(LEVELS - 1)]
        self._levels = [_Level(len(self.names), capacity, exact=True), *wide]
        self._bad = np.zeros(len(self.names), np.int64)
        self._first_bad = np.full(len(self.names), -1, np.int64)

    def append(self, step: int, *values: float) -> None:
        """Add the values of one step."""
        self.extend(np.array([step]), np.array([values], np.float64))

    def extend(self, steps: np.ndarray, rows: np.ndarray, missing: np.ndarray | None = None) -> None:
        """Add the rows of several steps, in order."""
        rows = np.asarray(rows, np.float32).reshape(len(steps), len(self.names))
        self._count_bad(steps, ~np.isfinite(rows) if missing is None else ~np.isfinite(rows) & ~missing)
        if missing is not None:
            rows = np.where(missing, np.float32(np.nan), rows)
        for start in range(0, len(steps), self._levels[0].capacity // 2):
            part = slice(start, start + self._levels[0].capacity // 2)
            self._push(0, np.asarray(steps[part]), np.ones(len(steps[part]), np.int32), rows[part, None, :])

    def _count_bad(self, steps: np.ndarray, bad: np.ndarray) -> None:
        if bad.any():
            new = bad.any(axis=0) & (self._first_bad < 0)
            self._first_bad[new] = np.asarray(steps)[bad.argmax(axis=0)][new]
            self._bad += bad.sum(axis=0)

    def _push(self, number: int, steps: np.ndarray, counts: np.ndarray, data: np.ndarray) -> None:
        level = self._levels[number]
        if level.used + len(steps) > level.capacity:
            if number + 1 < len(self._levels):
                self._push(number + 1, *_folded(*level.take_oldest(level.capacity // 2), FACTOR))
            else:
                level.refill(*_folded(*level.take_oldest(level.used // 2 * 2), 2))
        level.push(steps, counts, data)

    def series(self) -> dict[str, Series]:
        """Give every column as a series by its name; what is given no longer changes."""
        return dict(zip(self.names, self.columns(), strict=True))

    def columns(self) -> list[Series]:
        """Give every column as a series, oldest bucket first."""
        parts = [level.content() for level in reversed(self._levels) if level.used]
        if not parts:
            return [Series(name) for name in self.names]
        steps, counts = np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
        table = np.concatenate([np.broadcast_to(p[2], (len(p[2]), 3, len(self.names))) for p in parts])
        return [self._column(i, name, steps, counts, table[:, :, i]) for i, name in enumerate(self.names)]

    def _column(self, i: int, name: str, steps: np.ndarray, counts: np.ndarray, values: np.ndarray) -> Series:
        first = int(self._first_bad[i]) if self._bad[i] else None
        # A column of many that was not measured at a step has no bucket there.
        kept = ~np.isnan(values[:, 0]) if len(self.names) > 1 else slice(None)
        mean, low, high = values[kept].T
        return Series(name, steps[kept], mean, low, high, counts[kept], int(self._bad[i]), first)

    @property
    def nbytes(self) -> int:
        """The bytes that are held now."""
        return sum(level.nbytes for level in self._levels)


class _Level:
    """Buckets of one width, oldest first; memory grows with use up to the capacity."""

    def __init__(self, columns: int, capacity: int, *, exact: bool) -> None:
        self.capacity, self.used = capacity, 0
        self._steps, self._counts = np.zeros(0, np.int64), np.zeros(0, np.int32)
        self._data = np.zeros((0, 1 if exact else 3, columns), np.float32)

    def push(self, steps: np.ndarray, counts: np.ndarray, data: np.ndarray) -> None:
        end = self.used + len(steps)
        if end > len(self._steps):
            self._grow(end)
        self._steps[self.used : end], self._counts[self.used : end] = steps, counts
        self._data[self.used : end] = data
        self.used = end

    def _grow(self, needed: int) -> None:
        rows = min(self.capacity, max(needed, 2 * len(self._steps), 64))
        for name in ("_steps", "_counts", "_data"):
            old = getattr(self, name)
            new = np.zeros((rows, *old.shape[1:]), old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)

    def take_oldest(self, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        steps, counts, data = (part[:rows].copy() for part in (self._steps, self._counts, self._data))
        for part in (self._steps, self._counts, self._data):
            part[: self.used - rows] = part[rows : self.used].copy()
        self.used -= rows
        return steps, counts, data

    def refill(self, steps: np.ndarray, counts: np.ndarray, data: np.ndarray) -> None:
        """Put buckets in front of those that are left."""
        rest = self.take_oldest(self.used)
        self.push(steps, counts, data)
        self.push(*rest)

    def content(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self._steps[: self.used], self._counts[: self.used], self._data[: self.used]

    @property
    def nbytes(self) -> int:
        return int(self._steps.nbytes + self._counts.nbytes + self._data.nbytes)


def _folded(
    steps: np.ndarray, counts: np.ndarray, data: np.ndarray, factor: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Join every `factor` buckets to one; what is not finite is left out of its numbers."""
    steps, counts = steps.reshape(-1, factor), counts.reshape(-1, factor)
    data = data.reshape(len(steps), factor, *data.shape[1:])
    data = np.where(np.isfinite(data), data, np.float32(np.nan))
    mean, low, high = data[:, :, 0], data[:, :, 1 % data.shape[2]], data[:, :, 2 % data.shape[2]]
    weights = np.where(np.isnan(mean), 0.0, counts[:, :, None])
    total = weights.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        middle = np.where(np.isnan(mean), 0.0, mean * weights).sum(axis=1) / total
    joined = np.stack([middle, np.fmin.reduce(low, axis=1), np.fmax.reduce(high, axis=1)], axis=1)
    return steps[:, -1], counts.sum(axis=1), joined.astype(np.float32)


class Waterfall:
    """Histograms of several layers over time, in at most `rows` rows of equal weight."""

    def __init__(self, layers: int, buckets: int, rows: int = 128) -> None:
        self._steps = np.zeros(0, np.int64)
        self._counts = np.zeros((0, layers, buckets), np.float32)
        self._rows, self._used = rows, 0

    def append(self, step: int, counts: np.ndarray) -> None:
        """Add the counts (layers by buckets) of the steps up to this one."""
        if self._used == len(self._steps):
            self._make_room()
        self._steps[self._used], self._counts[self._used] = step, counts
        self._used += 1

    def _make_room(self) -> None:
        """Grow, or join two rows to one where there are enough."""
        used = self._used
        if used < self._rows:
            more = min(max(used, 8), self._rows - used)
            self._steps = np.concatenate([self._steps, np.zeros(more, np.int64)])
            self._counts = np.concatenate([self._counts, np.zeros((more, *self._counts.shape[1:]), np.float32)])
            return
        self._used = half = used // 2
        self._counts[:half] = self._counts[0 : 2 * half : 2] + self._counts[1 : 2 * half : 2]
        self._steps[:half] = self._steps[1 : 2 * half : 2]
        if used % 2:
            self._counts[half], self._steps[half] = self._counts[used - 1], self._steps[used - 1]
            self._used += 1

    def layer(self, index: int) -> OctaveHistory | None:
        """Give the rows of one layer in which anything was measured, as shares."""
        counts = self._counts[: self._used, index]
        total = counts.sum(axis=1)
        seen = total > 0
        if not seen.any():
            return None
        return OctaveHistory(self._steps[: self._used][seen], counts[seen] / total[seen, None])

    @property
    def nbytes(self) -> int:
        """The bytes that are held now."""
        return int(self._counts.nbytes + self._steps.nbytes)
