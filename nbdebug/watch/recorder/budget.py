"""The budget of a recorder: how often it may measure, so that a slow model is not slowed by its watcher."""

from __future__ import annotations

import math

__all__ = ["Budget", "is_common"]

REFRESH, PATIENCE = 1.0, 20.0  # measured at least so often: every second, unless that were a twentieth of the time
CREDIT = 0.02  # seconds that may be saved up, so that a pause is not followed by a burst
ALONE, TOGETHER = 64, 16  # the first steps at which each is looked at, and the spacing of looks behind them
GRACE = (4, 8)  # first measurements that are not charged, because they take longer; more where the user asked for them


def is_common(step: int, gap: int) -> bool:
    """Whether processes that wait differently long may all measure at this step, so many steps after the last time.

    Each rounds its own gap up to a power of two, so that the wider of two meets the other at all of its own.
    """
    spacing = 1 << max(gap - 1, 0).bit_length()
    return step % max(spacing, 1 if step < ALONE else TOGETHER) == 0


class Budget:
    """Says how long to wait after a measurement.

    `every` is the user's wish, or None to leave it to `share`, a share of the time. Left to itself it is told the time
    of passes and steps alone: a loader that is waited for, or whatever else the process does between two steps, buys no
    measurement.
    """

    def __init__(self, every: int | None, share: float) -> None:
        self.every, self.share = every, share
        self._balance = 0.0
        self._free = GRACE[every is not None]

    def after(self, waited: float, price: float) -> float:
        """Charge a measurement that came so long after the last one; give the seconds until the next may come."""
        self._balance = min(self._balance + self.share * waited, CREDIT)
        if self._free:
            self._free -= 1
        else:
            self._balance -= price
        if self._balance >= 0 or self.share >= 1:
            return 0.0
        return min(-self._balance / self.share, max(REFRESH, PATIENCE * price)) if self.share else math.inf
