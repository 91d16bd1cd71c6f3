"""What a step measured, found or not: the numbers of its evidence, and its curves as pictures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from nbdebug.charts import Bars, Lines
from nbdebug.core.text import figure
from nbdebug.engine.decision_tree import Step
from nbdebug.engine.session import Session
from nbdebug.report.page import Proof
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Setup
from nbdebug.views import page
from nbdebug.widgets.step_charts import charts_of, is_charted

__all__ = ["measured"]

MOST_NUMBERS, MOST_CHARTS, FEWEST, MOST_BARS, MOST_COLUMNS = 14, 2, 8, 24, 6


def measured(step: Step, session: Session) -> Proof:
    """Return the evidence of a step as charts and a table of its numbers; empty where nothing was measured."""
    specs = [session.registry.checks[check] for check in step.checks if check in session.registry.checks]
    kinds = dict.fromkeys(need.kind for spec in specs for need in spec.needs.values())
    found = [known for kind in kinds if kind not in (Sandbox, Setup) and (known := session.known(kind)) is not None]
    pictures = [chart for known in found for chart in (charts_of(known) if is_charted(known) else _pictures(known))]
    numbers = dict(pair for known in found for pair in _numbers(known))
    rows = [(name, figure(value)) for name, value in list(numbers.items())[:MOST_NUMBERS]]
    table = page.table(("measured", "value"), rows) if rows else ""
    table += "".join(page.table(*rows) for known in found for rows in _tables(known))
    folded = f"<details{'' if pictures else ' open'}><summary>Numbers</summary>{table}</details>" if table else ""
    below = f"<div class='nbdebug-measured'><div class='nbdebug-scroll'>{folded}</div></div>" if found else ""
    # Pictures, because whoever clicks through the steps takes figures away before the page has given them a size.
    return Proof(
        above="".join(page.drawn(chart, str(getattr(chart, "title", "")), 500) for chart in pictures[:MOST_CHARTS]),
        below=below,
    )


def _numbers(known: Any) -> Iterator[tuple[str, Any]]:
    """Yield the plain numbers and short words of an evidence, by their names."""
    for name, value in _parts(known):
        if isinstance(value, (bool, int, float)) or (isinstance(value, str) and 0 < len(value) <= 60):
            is_gap = isinstance(value, float) and math.isnan(value)
            if not is_gap:
                yield name.replace("_", " "), value


def _pictures(known: Any) -> Iterator[Bars | Lines]:
    """Yield the losses of an evidence, and what it has one number of for each layer or parameter."""
    for name, value in _parts(known):
        title = name.replace("_", " ")
        if not isinstance(value, (tuple, list)) or not value:
            continue
        if "losses" in name and len(value) >= FEWEST and all(_is_number(item) for item in value):
            yield Lines.of_losses([(title, [float(item) for item in value])], title)
        elif all(map(is_dataclass, value)):
            yield from _bars_of(title, value)
        elif 2 <= len(value) <= MOST_BARS and all(_is_named_number(item) for item in value):
            names, numbers = zip(*value, strict=True)
            yield Bars(tuple(map(str, names)), tuple(map(float, numbers)), title)


def _bars_of(title: str, records: Any) -> Iterator[Bars]:
    """Yield one bar for each of some records that have a name and a number."""
    if len(records) == 1:
        return
    rows = [dict(_numbers(item)) for item in records[:MOST_BARS]]
    named = next((key for key, value in rows[0].items() if isinstance(value, str)), "")
    number = next((key for key, value in rows[0].items() if isinstance(value, float)), "")
    if named and number and all(isinstance(row.get(number), float) and math.isfinite(row[number]) for row in rows):
        labels = tuple(str(row.get(named, "")) for row in rows)
        yield Bars(labels, tuple(row[number] for row in rows), f"{title}: {number}")


def _tables(known: Any) -> Iterator[tuple[tuple[str, ...], list[tuple[str, ...]]]]:
    """Yield the columns and the rows of what an evidence has one record of for each layer, head or column."""
    for name, value in _parts(known):
        if not isinstance(value, (tuple, list)) or not value or not all(map(is_dataclass, value)):
            continue
        rows = [dict(_numbers(item)) for item in value[:MOST_BARS]]
        columns = list(dict.fromkeys(key for row in rows for key in row))[:MOST_COLUMNS]
        if columns:
            yield (
                (name.replace("_", " "), *columns),
                [(str(number), *(figure(row.get(key, "")) for key in columns)) for number, row in enumerate(rows, 1)],
            )


def _parts(known: Any) -> list[tuple[str, Any]]:
    if not is_dataclass(known):
        return []
    own = [(part.name, getattr(known, part.name)) for part in fields(known)]
    nested = [(name, value) for name, value in own if is_dataclass(value)]
    inner = [(f"{name} {part.name}", getattr(value, part.name)) for name, value in nested for part in fields(value)]
    return [*own, *inner]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_named_number(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str) and _is_number(value[1])
