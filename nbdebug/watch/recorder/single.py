"""Numbers in single precision, in which a training in double precision must not look as if it had broken down."""

from __future__ import annotations

import numpy as np

__all__ = ["as_single"]


def as_single(values: np.ndarray) -> np.ndarray:
    """Return numbers in single precision; what is too large for it is the largest number there is, not infinite."""
    with np.errstate(over="ignore"):
        single: np.ndarray = np.asarray(values, np.float32)
    lost = np.isinf(single)
    if lost.any():
        lost &= np.isfinite(values)
        single = np.where(lost, np.copysign(np.finfo(np.float32).max, single), single)
    return single
