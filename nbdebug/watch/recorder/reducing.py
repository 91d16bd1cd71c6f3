"""From samples to statistics: few passes of NumPy over many layers and several steps at a time."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from nbdebug.watch.recorder.series import OCTAVES

__all__ = ["BUCKETS", "STATISTICS", "change_of", "infinite", "octave_counts", "squares_of", "statistics_of"]

STATISTICS = ("mean", "std", "abs_max", "zeros", "not_finite")
_SPAN = OCTAVES[1] - OCTAVES[0] + 1
BUCKETS = 2 * _SPAN + 1


def _bucket(code: int) -> int:
    """Return the bucket of the first nine bits of a float32, which are sign and exponent; the last is for no number."""
    exponent = code % 256 - 127
    if exponent == 128:
        return BUCKETS
    octave = min(max(exponent, OCTAVES[0]), OCTAVES[1]) - OCTAVES[0]  # what lies beyond the last octave counts in it
    return _SPAN if exponent == -127 else _SPAN + 1 + octave if code < 256 else _SPAN - 1 - octave


_BUCKET_OF = np.array([_bucket(code) for code in range(512)])


@lru_cache(maxsize=64)
def _ones(width: int) -> np.ndarray:
    return np.ones(width, np.float32)


def _squared(rows: np.ndarray) -> np.ndarray:
    """Return the sum of squares of each row."""
    squared: np.ndarray = np.matmul(rows[:, None, :], rows[:, :, None]).reshape(-1)
    return squared


def statistics_of(rows: np.ndarray) -> np.ndarray:
    """Return the statistics of each row of samples, in a column each; what is not finite is left out and counted."""
    with np.errstate(over="ignore", invalid="ignore"):
        ones, width = _ones(rows.shape[1]), np.float32(rows.shape[1])
        mean = (rows @ ones) / width
        if not np.isfinite(mean).all():
            return _statistics_with_holes(rows)
        apart = rows - mean[:, None]
        square = _squared(apart)
        zeros = (rows == 0).astype(np.float32) @ ones
        found = np.zeros((len(rows), len(STATISTICS)), np.float32)
        found[:, 0], found[:, 1], found[:, 3] = mean, np.sqrt(square / width), zeros / width
        np.maximum(rows.max(axis=1), -rows.min(axis=1), out=found[:, 2])
    return found


def _statistics_with_holes(rows: np.ndarray) -> np.ndarray:
    """Do the same where some values are not finite, or too large for float32."""
    kept = np.ma.masked_invalid(rows.astype(np.float64))
    bad = np.ma.getmaskarray(kept).mean(axis=1)
    zeros = np.where(np.isfinite(rows), rows == 0, False).mean(axis=1)
    parts = [kept.mean(axis=1), kept.std(axis=1), np.abs(kept).max(axis=1)]
    return np.stack([*(np.ma.filled(part, np.inf) for part in parts), zeros, bad], axis=1)


def squares_of(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return in two columns the mean square of each row before, and that of its change."""
    with np.errstate(over="ignore", invalid="ignore"):
        squares: np.ndarray = np.stack([_squared(before), _squared(after - before)], axis=1) / before.shape[1]
    return squares


def change_of(weight: np.ndarray, change: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the root of mean squares of weights, and |change| / |weight|; infinite if not finite, NaN if unknown."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        ratio = np.sqrt(change / weight)
        return np.sqrt(weight), np.where((weight == 0) | np.isnan(weight), np.nan, infinite(ratio))


def infinite(values: np.ndarray) -> np.ndarray:
    """Write what is not finite as infinite: NaN stands for what was not measured."""
    return np.where(np.isfinite(values), values, np.inf)


def octave_counts(rows: np.ndarray) -> np.ndarray:
    """Count the values of each row by sign and exponent, which are the first nine bits of a float32."""
    width = BUCKETS + 1
    codes = _BUCKET_OF.take(np.ascontiguousarray(rows).view(np.uint32) >> 23)
    codes += width * np.arange(len(rows))[:, None]
    counts = np.bincount(codes.reshape(-1), minlength=width * len(rows)).reshape(len(rows), width)
    return counts[:, :BUCKETS]
