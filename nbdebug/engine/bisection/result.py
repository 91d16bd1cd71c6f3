"""What a bisection came to: the ingredients named, the values with and without them, and all that differs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbdebug.charts import Panels
from nbdebug.core.finding import plain
from nbdebug.engine.bisection.differences import Differences
from nbdebug.engine.bisection.ingredient import Ingredient

__all__ = ["Bisection", "Cause", "Tried"]

SCHEMA = 1


@dataclass(frozen=True)
class Cause:
    """Ingredients of `good` with which `bad` learns: the metric that it comes to, and again from another start.

    Several names stand together where fewer are not enough. `parts` are the pieces of a large one that suffice.
    """

    names: tuple[str, ...]
    value: float
    skill: float
    again: float = math.nan
    parts: tuple[Ingredient, ...] = ()
    alone: tuple[tuple[str, float], ...] = ()  # the metric with one of the names only
    are_separate: bool = False  # each of them breaks `good` by itself
    is_confirmed: bool = True  # also from another random start

    @property
    def text(self) -> str:
        """Return the names as words."""
        return f"{', '.join(self.names[:-1])} and {self.names[-1]}" if len(self.names) > 1 else self.names[0]


@dataclass(frozen=True)
class Tried:
    """One mixture that was trained: which ingredients of `good` it had, and how far it came."""

    names: tuple[str, ...]
    seed: int
    steps: int
    value: float
    failure: str = ""
    curve: tuple[tuple[int, float], ...] = ()

    @property
    def label(self) -> str:
        """Return its name in a chart."""
        if self.names == ("*",):
            return "good"
        return " + ".join(("bad", *self.names)) if len(self.names) < 4 else f"bad + {len(self.names)} of good"


@dataclass(frozen=True)
class Bisection:
    """The answer to "it worked before": what makes `bad` fail, in words, numbers, curves and source."""

    outcome: str
    says: str
    measure: str
    differences: Differences
    causes: tuple[Cause, ...] = ()
    also: tuple[Cause, ...] = ()  # other ingredients that rescue it as well
    second: Cause | None = None
    good_value: float = math.nan
    bad_value: float = math.nan
    tried: tuple[Tried, ...] = ()
    notes: tuple[str, ...] = ()
    steps: int = 0  # of each training
    training_steps: int = 0  # of all of them together
    seconds: float = 0.0
    stopped: str = ""
    names: tuple[str, ...] = field(default=())

    @property
    def cause(self) -> Cause | None:
        """What is named first; None where nothing is."""
        return self.causes[0] if self.causes else None

    def ingredient(self, name: str) -> Ingredient:
        """Return what differs in one ingredient."""
        return next(row for row in self.differences.rows if row.name == name)

    @property
    def named(self) -> tuple[Ingredient, ...]:
        """The ingredients that are named, with both texts and both sources; the part where a part suffices."""
        cause = self.cause
        if cause is None:
            return ()
        whole = [self.ingredient(name) for name in cause.names]
        return (*(row for row in whole if not any(p.part_of == row.name for p in cause.parts)), *cause.parts)

    @property
    def curves(self) -> Panels:
        """The skill of every training that matters, a panel each, on one scale."""
        wanted = [("*",), (), *(cause.names for cause in (*self.causes, *self.also))]
        order = {names: place for place, names in reversed(list(enumerate(wanted)))}
        first = [run for run in self.tried if not run.seed and run.curve]
        chosen = sorted(first, key=lambda run: (order.get(run.names, len(wanted)), len(run.names)))[:6]
        series = tuple((r.label, tuple(float(s) for s, _ in r.curve), tuple(v for _, v in r.curve)) for r in chosen)
        return Panels(series, "What each comes to on held-out samples", y_label=self.measure)

    def to_frame(self) -> Any:
        """Return every training as a row of a pandas DataFrame."""
        import pandas as pd

        rows = [(r.label, r.names, r.seed, r.steps, r.value, r.failure) for r in self.tried]
        return pd.DataFrame(
            rows, columns=["training", "of good", "seed", "steps", self.measure or "value", "does not fit"]
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as data for JSON."""
        kept = {name: plain(value) for name, value in vars(self).items() if name not in _NESTED}
        return {
            "schema": SCHEMA,
            **kept,
            **self.differences.to_dict(),
            "causes": [_cause_to_dict(cause) for cause in self.causes],
            "also": [_cause_to_dict(cause) for cause in self.also],
            "second": _cause_to_dict(self.second) if self.second is not None else None,
            "tried": [plain(vars(run)) for run in self.tried],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Bisection:
        """Read back what `to_dict` wrote."""
        fields = {name: data[name] for name in cls.__dataclass_fields__ if name in data and name not in _NESTED}
        fields |= {name: _number(fields[name]) for name in ("good_value", "bad_value", "seconds")}
        return cls(
            **fields | {"notes": tuple(data["notes"]), "names": tuple(data["names"])},
            differences=Differences.from_dict(data),
            causes=tuple(map(_cause_from_dict, data["causes"])),
            also=tuple(map(_cause_from_dict, data["also"])),
            second=_cause_from_dict(data["second"]) if data["second"] else None,
            tried=tuple(map(_tried_from_dict, data["tried"])),
        )

    def save(self, path: str | Path) -> Path:
        """Write the result as .html, .ipynb or .json."""
        from nbdebug.engine.bisection.showing import write

        return write(self, Path(path))

    def __str__(self) -> str:
        """Return the answer, the named ingredients and the table, for a terminal."""
        from nbdebug.engine.bisection.showing import as_text

        return as_text(self)

    def __repr__(self) -> str:
        """Return one line."""
        return f"<nbdebug bisection: {self.says}>"

    def _repr_html_(self) -> str:
        from nbdebug.engine.bisection.showing import as_html

        return as_html(self)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}


_NESTED = ("differences", "causes", "also", "second", "tried")


def _cause_to_dict(cause: Cause) -> dict[str, Any]:
    return {**plain({**vars(cause), "parts": ()}), "parts": [part.to_dict() for part in cause.parts]}


def _cause_from_dict(data: Mapping[str, Any]) -> Cause:
    return Cause(
        tuple(data["names"]),
        value=_number(data["value"]),
        skill=_number(data["skill"]),
        again=_number(data["again"]),
        parts=tuple(map(Ingredient.from_dict, data["parts"])),
        alone=tuple((name, _number(value)) for name, value in data["alone"]),
        are_separate=bool(data["are_separate"]),
        is_confirmed=bool(data["is_confirmed"]),
    )


def _tried_from_dict(data: Mapping[str, Any]) -> Tried:
    curve = tuple((int(step), _number(value)) for step, value in data["curve"])
    return Tried(tuple(data["names"]), data["seed"], data["steps"], _number(data["value"]), data["failure"], curve)


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)
