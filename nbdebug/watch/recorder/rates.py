"""The learning rates of every group of every optimizer, written down where they change."""

from __future__ import annotations

import math
from typing import Any

import torch

from nbdebug.watch.recorder.steps import Steps
from nbdebug.watch.recorder.store import Store

__all__ = ["Rates", "read_rate"]

MOST_GROUPS = 32  # of an optimizer whose learning rates are followed


class Rates:
    """Most steps have the rates of the step before, so that rows are written for changes, and for the last step."""

    def __init__(self, steps: Steps, store: Store) -> None:
        self._steps, self._store = steps, store
        self._newest: list[Any] = []
        self._named: dict[str, float] = {}
        self._step = -1  # of the last row

    def now(self) -> list[Any]:
        """Read the rates."""
        rates: list[Any] = []
        for each in self._steps.followed.values():
            for group in each.optimizer.param_groups[:MOST_GROUPS]:
                rate = group.get("lr", math.nan)
                rates.append(rate if type(rate) is float else read_rate(rate))
        return rates

    def note(self, now: list[Any]) -> None:
        """Take the rates of the step that ends."""
        if now == self._newest:
            return
        step, self._newest, followed = self._steps.step, now, self._steps.followed.values()
        names = [str(number) for number in range(len(now))]
        if len(followed) > 1:
            counts = [(each.name, len(each.optimizer.param_groups[:MOST_GROUPS])) for each in followed]
            names = [f"{name}/{number}" for name, count in counts for number in range(count)]
        self.repeat(step - 1)
        self._named = {name: float(rate) for name, rate in zip(names, now, strict=True)}
        self._write(step)

    def repeat(self, step: int) -> None:
        """Write that the rates were still the same at this step."""
        if self._named and self._step < step:
            self._write(step)

    def _write(self, step: int) -> None:
        self._store.rate_rows.append((step, self._named))
        self._step = step


def read_rate(rate: Any) -> Any:
    """Read a learning rate; one that is a tensor on the CPU by its value, because a scheduler writes into it."""
    return rate.item() if isinstance(rate, torch.Tensor) and rate.is_cpu else rate
