"""A bounded history: recent steps exactly, older ones as mean, lowest and highest value of ever wider buckets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nbdebug.watch.recorder.buckets import Level, folded
from nbdebug.watch.recorder.series import OctaveHistory, Series
from nbdebug.watch.recorder.single import as_single

__all__ = ["Track", "Waterfall", "capacity_for"]

# Of a metric: at least the last 2048 steps exactly, because a third is folded at a time, in 141 kB.
CAPACITY, FACTOR, LEVELS = 3072, 8, 4
FEW = 4  # columns that are held in double precision: what is logged, times and norms, but no table of layers
TABLE_BYTES = 8_000_000  # for one quantity of all layers together, so that a thousand of them stay small as well


def capacity_for(columns: int) -> int:
    """Return how many single steps may be held, so that a table of many columns stays within its bytes."""
    row = 4 + (LEVELS - 1) * (3 * 4 + 4) // 4  # a value, and a quarter as many buckets on every other level
    return max(128, min(CAPACITY, TABLE_BYTES // (max(columns, 1) * row) // 32 * 32))


class Track:
    """Columns that are measured at the same steps; a value that was not measured is `missing`, not NaN.

    A few columns are exact. Many are held in single precision, in which what is too large is the largest number there
    is: only what was not finite when it came counts as such.
    """

    def __init__(self, names: Sequence[str], capacity: int = 0) -> None:
        self.names, columns = tuple(names), len(names)
        capacity = capacity or capacity_for(columns)
        self._kind: type[np.floating] = np.float64 if columns <= FEW else np.float32
        wide = [Level(columns, capacity // 4, self._kind, is_exact=False) for _ in range(LEVELS - 1)]
        self._levels = [Level(columns, capacity, self._kind, is_exact=True), *wide]
        self._bad = np.zeros(columns, np.int64)
        self._first_bad = np.full(columns, -1, np.int64)

    def append(self, step: int, *values: float) -> None:
        """Add the values of one step."""
        self.extend(np.array([step]), np.array([values], np.float64))

    def extend(self, steps: np.ndarray, rows: np.ndarray, missing: np.ndarray | None = None) -> None:
        """Add the rows of several steps, in order."""
        rows = np.asarray(rows).reshape(len(steps), len(self.names))
        values = np.asarray(rows, np.float64) if self._kind is np.float64 else as_single(rows)
        bad = ~np.isfinite(values)
        if bad.any():
            self._count_bad(steps, bad if missing is None else bad & ~missing)
        if missing is not None:
            values = np.where(missing, self._kind(np.nan), values)
        chunk = _folded_at_once(self._levels[0].capacity, 3)
        for start in range(0, len(steps), chunk):
            part = slice(start, start + chunk)
            self._push(0, (steps[part], values[part, None]))

    def take_back(self) -> None:
        """Forget the newest step again, of which nothing may be missing."""
        bad = ~np.isfinite(self._levels[0].take_newest()[0])
        self._bad -= bad
        self._first_bad[self._bad == 0] = -1

    @property
    def last_step(self) -> int:
        """The newest step; -1 where there is none."""
        return self._levels[0].last_step

    def _count_bad(self, steps: np.ndarray, bad: np.ndarray) -> None:
        if bad.any():
            new = bad.any(axis=0) & (self._first_bad < 0)
            self._first_bad[new] = np.asarray(steps)[bad.argmax(axis=0)][new]
            self._bad += bad.sum(axis=0)

    def _push(self, number: int, parts: Sequence[np.ndarray]) -> None:
        level = self._levels[number]
        if level.used + len(parts[0]) > level.capacity:
            if number + 1 < len(self._levels):
                rows = _folded_at_once(level.capacity, 2 if number else 3)
                self._push(number + 1, folded(level.take_oldest(rows), FACTOR))
            else:
                level.refill(folded(level.take_oldest(level.used // 2 * 2), 2))
        level.push(parts)

    def series(self) -> dict[str, Series]:
        """Return every column as a series by its name; what is given no longer changes."""
        return dict(zip(self.names, self.columns(), strict=True))

    def columns(self) -> list[Series]:
        """Return every column as a series, oldest bucket first."""
        parts = [level.content() for level in reversed(self._levels) if level.used]
        if not parts:
            return [Series(name) for name in self.names]
        steps, counts, known = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("steps", "counts", "known")
        )
        table = np.concatenate([np.broadcast_to(p.data, (len(p.data), 3, len(self.names))) for p in parts])
        return [self._column(i, steps, counts, table[:, :, i], known[:, i]) for i in range(len(self.names))]

    def _column(self, i: int, steps: np.ndarray, counts: np.ndarray, values: np.ndarray, known: np.ndarray) -> Series:
        first = int(self._first_bad[i]) if self._bad[i] else None
        # A column of many that was not measured at a step has no bucket there.
        kept = ~np.isnan(values[:, 0]) if len(self.names) > 1 else slice(None)
        mean, low, high = values[kept].T
        return Series(self.names[i], steps[kept], mean, low, high, counts[kept], int(self._bad[i]), first, known[kept])

    @property
    def nbytes(self) -> int:
        """The bytes that are held now."""
        return sum(level.nbytes for level in self._levels)


def _folded_at_once(capacity: int, parts: int) -> int:
    """Return the rows that one of so many parts of a level has: whole buckets of the next one."""
    return capacity // parts // FACTOR * FACTOR


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
        """Return the rows of one layer in which anything was measured, as shares."""
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
