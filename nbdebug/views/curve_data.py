"""A recorded curve with few points, as the view of a training draws it."""

from __future__ import annotations

from typing import Any

import numpy as np

from nbdebug.views import page
from nbdebug.watch.recorder.series import Series

__all__ = ["curve_data", "thinned"]

POINTS = 300  # of one curve; a message stays under 100 kB, and an hour of training under 50 MB


def thinned(series: Series) -> Series:
    """Return a curve with few points: the mean of each stretch, with its lowest and highest value."""
    count = len(series)
    if count <= POINTS:
        return series
    starts = np.linspace(0, count, POINTS + 1).astype(int)[:-1]
    ends = np.append(starts[1:], count)
    is_finite = np.isfinite(series.values)
    sums = np.add.reduceat(np.where(is_finite, series.values, 0.0), starts)
    known = np.add.reduceat(is_finite.astype(float), starts)
    with np.errstate(invalid="ignore", divide="ignore"):
        values = np.where(known > 0, sums / known, np.nan)
    return Series(
        series.name,
        series.steps[ends - 1],
        values,
        np.fmin.reduceat(series.low, starts),
        np.fmax.reduceat(series.high, starts),
        np.add.reduceat(series.counts, starts),
    )


def curve_data(name: str, series: Series) -> dict[str, Any]:
    """Return a curve as the front end draws it, as plain values."""
    thin = thinned(series)
    data = {
        "name": name,
        "steps": [int(step) for step in thin.steps],
        "values": [page.number(value) for value in thin.values],
        "last": page.number(series.last),
    }
    if bool((thin.low < thin.high).any()):
        data |= {"low": [page.number(v, 3) for v in thin.low], "high": [page.number(v, 3) for v in thin.high]}
    return data
