"""From buffers of samples to statistics: few passes of NumPy over many layers and several steps at a time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from nbdebug.evidence.recording import OCTAVES

__all__ = ["BUCKETS", "STATISTICS", "layer_statistics", "octave_counts", "weight_statistics"]

STATISTICS = ("mean", "std", "abs_max", "zeros", "not_finite")
_SPAN = OCTAVES[1] - OCTAVES[0] + 1
BUCKETS = 2 * _SPAN + 1

Layout = tuple[tuple[int, int], ...]


def layer_statistics(layout: Layout, rows: np.ndarray, layers: int) -> np.ndarray:
    """Give steps × statistics × layers; NaN where a layer is not in the layout."""
    index, sizes, starts = _borders(layout)
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.add.reduceat(rows, starts, axis=1, dtype=np.float64)
    bad = np.zeros_like(total)
    if not np.isfinite(total).all():
        broken = ~np.isfinite(rows)
        bad = np.add.reduceat(broken, starts, axis=1, dtype=np.float64)
        rows = np.where(broken, np.float32(0), rows)
        total = np.add.reduceat(rows, starts, axis=1, dtype=np.float64)
    with np.errstate(over="ignore"):
        squares = np.add.reduceat(rows * rows, starts, axis=1, dtype=np.float64)
    largest = np.maximum.reduceat(np.abs(rows), starts, axis=1)
    zeros = np.add.reduceat(rows == 0, starts, axis=1, dtype=np.float64) - bad
    sums = np.stack([total, squares, zeros, bad, np.broadcast_to(sizes, total.shape)], axis=1)
    merged, top = _merged(index, sums, largest, layers)
    return _finished(merged, top)


def _merged(index: np.ndarray, sums: np.ndarray, largest: np.ndarray, layers: int) -> tuple[np.ndarray, np.ndarray]:
    """Add up the calls of a module that was called more than once."""
    merged = np.zeros((*sums.shape[:2], layers))
    top = np.zeros((len(sums), layers))
    if len(set(index.tolist())) == len(index):
        merged[:, :, index], top[:, index] = sums, largest
    else:
        for place, layer in enumerate(index.tolist()):
            merged[:, :, layer] += sums[:, :, place]
            np.maximum(top[:, layer], largest[:, place], out=top[:, layer])
    return merged, top


def _finished(merged: np.ndarray, top: np.ndarray) -> np.ndarray:
    total, squares, zeros, bad, sizes = (merged[:, part] for part in range(5))
    with np.errstate(invalid="ignore", divide="ignore"):
        good = sizes - bad
        mean = np.where(good > 0, total / good, np.inf)
        std = np.where(good > 0, np.sqrt(np.maximum(squares / good - mean**2, 0.0)), np.inf)
        found = np.stack([mean, std, top, zeros / sizes, bad / sizes], axis=1)
    found[np.broadcast_to((sizes == 0)[:, None], found.shape)] = np.nan
    return found


@lru_cache(maxsize=256)
def _borders(layout: Layout) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    index, sizes = np.array(layout).T
    return index, sizes, np.concatenate([[0], np.cumsum(sizes)[:-1]])


def octave_counts(layout: Layout, row: np.ndarray, layers: int) -> np.ndarray:
    """Count the values of one step by sign and exponent, which are the first nine bits of a float32."""
    codes = (row.view(np.uint32) >> 23) + _offsets(layout)
    counts = np.bincount(codes, minlength=512 * layers)[: 512 * layers].reshape(layers, 512)
    return _as_octaves(counts)


@lru_cache(maxsize=64)
def _offsets(layout: Layout) -> np.ndarray:
    index, sizes = np.array(layout).T
    return (np.repeat(index, sizes) * 512).astype(np.uint32)


def _as_octaves(counts: np.ndarray) -> np.ndarray:
    """Join 2×256 exponents to the buckets that are kept; what lies beyond the last octave counts in it."""
    first, last = OCTAVES[0] + 127, OCTAVES[1] + 127
    signed = []
    for sign in (counts[:, :255], counts[:, 256:511]):  # the exponent 255 is not finite
        kept = sign[:, first : last + 1].copy()
        kept[:, 0] += sign[:, 1:first].sum(axis=1)
        kept[:, -1] += sign[:, last + 1 :].sum(axis=1)
        signed.append(kept)
    zeros = counts[:, [0]] + counts[:, [256]]
    return np.concatenate([signed[1][:, ::-1], zeros, signed[0]], axis=1)


def weight_statistics(
    layout: Layout, before: np.ndarray, after: np.ndarray, numels: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give the indices of the weights, their norms after the step, and |change| / |weight before|."""
    index, sizes, starts = _borders(layout)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        change = after - before
        moved = np.add.reduceat(change * change, starts, dtype=np.float64)
        old = np.add.reduceat(before * before, starts, dtype=np.float64)
        new = np.add.reduceat(after * after, starts, dtype=np.float64)
        whole = np.asarray(numels)[index] / sizes
        norms, ratios = np.sqrt(new * whole), np.sqrt(moved / old)
    return index, _infinite(norms), np.where(old > 0, _infinite(ratios), np.nan)


def _infinite(values: np.ndarray) -> np.ndarray:
    """Write what is not finite as infinite: NaN stands for what was not measured."""
    return np.where(np.isfinite(values), values, np.inf)
