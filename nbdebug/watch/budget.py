"""The budget of a recorder: how often it may measure, so that a slow model is not slowed by its watcher."""

from __future__ import annotations

__all__ = ["Budget"]

REFRESH, PATIENCE = 1.0, 20.0  # measured at least so often: every second, unless that were a twentieth of the time
CREDIT = 0.02  # seconds that may be saved up, so that a pause is not followed by a burst
GRACE = (4, 8)  # first measurements that are not charged, because they take longer; more where the user asked for them


class Budget:
    """Says which steps are measured. `every` is the user's wish, or None to leave it to `share`, a share of the time.

    Left to itself it counts the time of passes and steps alone: a loader that is waited for, or whatever else the
    process does between two steps, buys no measurement.
    """

    def __init__(self, every: int | None, share: float) -> None:
        self.every, self.share = every, share
        self._balance, self._waited, self._price = CREDIT, 0.0, 0.0
        self._free = GRACE[every is not None]

    def after(self, step: int, busy: float, elapsed: float, price: float | None) -> bool:
        """Take a step into account, and the price of measuring it or None; whether the next one is to be measured."""
        seconds = busy if self.every is None else elapsed
        self._waited += seconds
        self._balance += self.share * seconds
        if price is not None:
            self._balance -= 0.0 if self._free else price
            self._free -= self._free > 0
            self._waited, self._price = 0.0, price
        if self._balance > CREDIT:
            self._balance = CREDIT
        if self.every is not None and (step + 1) % self.every:
            return False
        return self._balance >= 0 or self.share >= 1 or self._waited > max(REFRESH, PATIENCE * self._price)
