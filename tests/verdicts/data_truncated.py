"""Verdicts about input values that lost their fractions."""

from __future__ import annotations

from typing import Any

import numpy as np

from nbdebug.checks.data.truncated_inputs import StoredValues, ValueLoss
from nbdebug.evidence.loader_sweep import LoaderSweep
from tests.verdicts.data_sweep import part, sweep
from tests.verdicts.table import Table


def integers(rows: np.ndarray, constant: int = 0, high: float = 9.0) -> tuple[LoaderSweep, None]:
    """Return inputs that are whole numbers, of which the first samples are blank."""
    count = len(rows)
    facts = {"samples": count, "constant": constant, "whole": True, "low": 0.0, "high": high, "rows": rows}
    blank = np.arange(count) < constant
    return sweep(count, np.arange(count) % 2, parts=(part("input", **facts), part("target")), blank=blank), None


def column(ones: float = 0.3, tails: float = 0.04, count: int = 1000, tail: int = 2, shift: float = 0.0) -> np.ndarray:
    """Return a column of zeros with these shares of ±1 and of a larger number; `shift` is the mean of the ones."""
    shares = [(1, (ones + shift) / 2), (-1, (ones - shift) / 2), (tail, tails / 2), (-tail, tails / 2)]
    parts = [np.full(round(share * count), value) for value, share in shares]
    return np.resize(np.concatenate([*parts, np.zeros(count)]), count)[:count]


def columns(alike: int = 10, **facts: Any) -> tuple[LoaderSweep, None]:
    """Return ten columns, of which so many look like a standard normal distribution without its fractions."""
    bell = column(**facts)
    return integers(np.stack([bell if index < alike else np.arange(len(bell)) for index in range(10)], 1))


def blanks(count: int) -> tuple[LoaderSweep, None]:
    """Return a hundred samples of 0 and 1, of which so many are blank."""
    return integers(np.zeros((100, 10)), count, high=1.0)


def cast(seen: int) -> tuple[LoaderSweep, StoredValues]:
    """Return so many samples that a cast has cut down."""
    return sweep(seen), StoredValues(seen, (ValueLoss("batch[0]", "cast", "reading", "float64", 200, 2),))


table = Table("truncated-inputs")
table.row("real numbers", "silent", sweep(), None)
table.pair("blank", blanks, {51: "suspect", 49: "silent"})
table.pair("bell", columns, {7: "suspect", 6: "silent"})
table.pair("least", cast, {16: "bug", 15: "not applicable"})
table.pair("rows", lambda count: columns(count=count), {100: "suspect", 99: "silent"})
table.pair("zeros", lambda zeros: columns(ones=0.96 - zeros), {0.51: "suspect", 0.49: "silent"})
table.pair("center", lambda mean: columns(ones=0.4, shift=mean), {0.29: "suspect", 0.31: "silent"})
table.pair("std_least", lambda std: columns(ones=std**2 - 0.032, tails=0.008), {0.32: "suspect", 0.28: "silent"})
table.pair("std_most", lambda std: columns(ones=std**2 - 0.882, tails=0.098, tail=3), {1.08: "suspect", 1.12: "silent"})
table.pair("tails_least", lambda share: columns(tails=share), {0.006: "suspect", 0.004: "silent"})
table.pair("tails_most", lambda share: columns(tails=share), {0.09: "suspect", 0.11: "silent"})
