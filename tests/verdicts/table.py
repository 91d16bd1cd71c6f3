"""What a table of verdicts is made of: rows of evidence with the verdict expected, and pairs around a threshold."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, TypeVar

from nbdebug.core.finding import SEVERITIES
from nbdebug.core.registry import registry
from nbdebug.errors import NotApplicable

__all__ = ["TABLES", "Pair", "Row", "Table", "minimal", "near", "verdict"]

T = TypeVar("T")
Verdict = Literal["bug", "suspect", "note", "silent", "not applicable"]
EMPTY: dict[Any, Any] = {int: 0, float: 0.0, str: "", bool: False, tuple: (), dict: {}, list: []}
TABLES: dict[str, Table] = {}


@dataclass(frozen=True)
class Row:
    """Evidence, in the order of the check's parameters, and the verdict that the check has to reach."""

    check: str
    name: str
    expected: Verdict
    evidence: tuple[Any, ...]
    thresholds: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the id of the test."""
        return f"{self.check}: {self.name}: {self.expected}"


@dataclass(frozen=True)
class Pair:
    """Two rows whose evidence differs in one value, which lies on either side of a threshold."""

    threshold: str
    rows: tuple[Row, Row]

    def __str__(self) -> str:
        """Return the id of the test."""
        return f"{self.rows[0].check}: {self.threshold}"


class Table:
    """The rows of one check."""

    def __init__(self, check: str) -> None:
        assert check not in TABLES, f"{check} has two tables"
        TABLES[check] = self
        self.check = check
        self.rows: list[Row] = []
        self.pairs: list[Pair] = []

    def row(self, name: str, expected: Verdict, *evidence: Any, **thresholds: Any) -> None:
        """Add a row: what the evidence is, the verdict, the evidence, and thresholds other than the default."""
        self.rows.append(Row(self.check, name, expected, evidence, thresholds))

    def pair(self, threshold: str, make: Callable[[Any], Any], sides: Mapping[Any, Verdict], **thresholds: Any) -> None:
        """Add two rows around a threshold: how a value becomes evidence, and the verdict for each of two values."""
        given = {value: e if isinstance(e := make(value), tuple) else (e,) for value in sides}
        one, two = (
            Row(self.check, f"{threshold} around {value:g}", expected, given[value], thresholds)
            for value, expected in sides.items()
        )
        self.rows += [one, two]
        self.pairs.append(Pair(threshold, (one, two)))


def verdict(row: Row, **thresholds: Any) -> str:
    """Run the check of a row and return the gravest severity that it finds."""
    spec = registry.load().checks[row.check]
    assert len(row.evidence) == len(spec.needs), f"{row.check} takes {', '.join(spec.needs)}"
    try:
        found = list(spec.function(*row.evidence, **{**row.thresholds, **thresholds}))
    except NotApplicable:
        return "not applicable"
    return min((finding.severity for finding in found), key=SEVERITIES.index, default="silent")


def near(default: float) -> list[float]:
    """Return values close to a threshold on both sides, at most a quarter off: one of them has to change a verdict."""
    if isinstance(default, int):
        return [default - 1, default + 1]
    return [default * factor for factor in (0.75, 0.9, 1.1, 1.25)] if default else [-0.01, 0.01]


def minimal(kind: type[T], /, **fields: Any) -> T:
    """Return evidence with these fields; the others have their defaults, or are empty."""
    hints = _hints(kind)
    needed = [f for f in dataclasses.fields(kind) if f.init and f.name not in fields]  # type: ignore[arg-type]
    rest = {
        f.name: _empty(hints[f.name])
        for f in needed
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }
    return kind(**rest, **fields)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _empty(hint: Any) -> Any:
    """Return the least value of a type: None where that is allowed, otherwise zero or nothing."""
    options = typing.get_args(hint)
    origin = typing.get_origin(hint) or hint
    if origin in (typing.Union, types.UnionType) and type(None) in options:
        return None
    if origin in (typing.Union, types.UnionType, Literal):
        return _empty(options[0]) if origin is not Literal else options[0]
    return minimal(origin) if dataclasses.is_dataclass(origin) else EMPTY.get(origin, ())
