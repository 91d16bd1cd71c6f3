"""Which parts of a chart are shown where there are too many, and which stand out."""

from __future__ import annotations

import math

__all__ = ["MOST_BARS", "evenly_spaced", "is_out", "noteworthy"]

MOST_BARS = 32


def noteworthy(values: list[float], band: tuple[float, float] | None) -> list[int]:
    """Choose the bars to draw, in their order: those not finite or out of the band first, then both extremes."""
    if len(values) <= MOST_BARS:
        return list(range(len(values)))
    order = sorted(range(len(values)), key=lambda i: values[i] if math.isfinite(values[i]) else 0.0)
    extremes = [i for pair in zip(order, reversed(order), strict=True) for i in pair]
    first = [i for i in extremes if not math.isfinite(values[i])] + [i for i in extremes if is_out(values[i], band)]
    return sorted(list(dict.fromkeys((*first, *extremes)))[:MOST_BARS])


def is_out(value: float, band: tuple[float, float] | None) -> bool:
    """Return whether a bar is to stand out: it is not finite, or out of the healthy band."""
    return not math.isfinite(value) or (band is not None and not band[0] <= value <= band[1])


def evenly_spaced(count: int, most: int) -> list[int]:
    """Choose at most so many of some rows, with the first and the last."""
    return list(range(count)) if count <= most else [round(i * (count - 1) / (most - 1)) for i in range(most)]
