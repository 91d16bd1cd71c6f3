"""From samples to statistics: few passes of NumPy over many layers and several steps at a time."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from nbdebug.evidence.recording import OCTAVES

__all__ = ["BUCKETS", "STATISTICS", "change_of", "octave_counts", "statistics_of"]

STATISTICS = ("mean", "std", "abs_max", "zeros", "not_finite")
_SPAN = OCTAVES[1] - OCTAVES[0] + 1
BUCKETS = 2 * _SPAN + 1


@lru_cache(maxsize=64)
def _ones(width: int) -> np.ndarray:
    return np.ones(width, np.float32)


def statistics_of(rows: np.ndarray) -> np.ndarray:
    """Give the statistics of each row of samples, in a column each; what is not finite is left out and counted."""
    with np.errstate(over="ignore", invalid="ignore"):
        ones, width = _ones(rows.shape[1]), np.float32(rows.shape[1])
        mean = (rows @ ones) / width
        if not np.isfinite(mean).all():
            return _statistics_with_holes(rows)
        apart = rows - mean[:, None]
        square = np.einsum("ij,ij->i", apart, apart)
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


def change_of(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Give in two columns the root mean square of each row before, and |change| / |before|; infinite if not finite."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        change = after - before
        moved = np.einsum("ij,ij->i", change, change)
        old = np.einsum("ij,ij->i", before, before)
        ratio = np.where(old == 0, np.nan, _infinite(np.sqrt(moved / old)))
    return np.stack([_infinite(np.sqrt(old / before.shape[1])), ratio], axis=1)


def _infinite(values: np.ndarray) -> np.ndarray:
    """Write what is not finite as infinite: NaN stands for what was not measured."""
    return np.where(np.isfinite(values), values, np.inf)


def octave_counts(rows: np.ndarray) -> np.ndarray:
    """Count the values of each row by sign and exponent, which are the first nine bits of a float32."""
    codes = (np.ascontiguousarray(rows).view(np.uint32) >> 23) + 512 * np.arange(len(rows), dtype=np.uint32)[:, None]
    counts = np.bincount(codes.reshape(-1), minlength=512 * len(rows)).reshape(len(rows), 512)
    first, last = OCTAVES[0] + 127, OCTAVES[1] + 127
    signed = []
    for sign in (counts[:, :255], counts[:, 256:511]):  # the exponent 255 is not finite
        kept = sign[:, first : last + 1].copy()
        kept[:, 0] += sign[:, 1:first].sum(axis=1)  # what lies beyond the last octave counts in it
        kept[:, -1] += sign[:, last + 1 :].sum(axis=1)
        signed.append(kept)
    zeros = counts[:, [0]] + counts[:, [256]]
    joined: np.ndarray = np.concatenate([signed[1][:, ::-1], zeros, signed[0]], axis=1)
    return joined
