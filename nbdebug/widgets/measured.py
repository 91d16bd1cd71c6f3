"""What a step measured, found or not: the numbers of its evidence, and its curves as pictures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from html import escape
from typing import Any

from nbdebug.charts import Bars, Lines
from nbdebug.core.text import clean_text, figure
from nbdebug.engine.decision_tree import Step
from nbdebug.engine.session import Session
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Setup
from nbdebug.views import page

__all__ = ["measured"]

MOST_NUMBERS, MOST_CURVES, FEWEST, MOST_BARS = 14, 2, 8, 24


def measured(step: Step, session: Session) -> str:
    """Return the evidence of a step as pictures and a table of its numbers; empty where nothing was measured."""
    specs = [session.registry.checks[check] for check in step.checks if check in session.registry.checks]
    kinds = dict.fromkeys(need.kind for spec in specs for need in spec.needs.values())
    found = [known for kind in kinds if kind not in (Sandbox, Setup) and (known := session.known(kind)) is not None]
    pictures = [picture for known in found for picture in _pictures(known)][:MOST_CURVES]
    numbers = dict(pair for known in found for pair in _numbers(known))
    rows = [(name, figure(value)) for name, value in list(numbers.items())[:MOST_NUMBERS]]
    table = page.table(("measured", "value"), rows) if rows else ""
    drawn = "".join(page.drawn(picture, picture.title, 500) for picture in pictures)
    folded = f"<details{'' if drawn else ' open'}><summary>Numbers</summary>{table}</details>" if table else ""
    return f"<div class='nbdebug-measured'>{drawn}<div class='nbdebug-scroll'>{folded}</div></div>" if found else ""


def _numbers(known: Any) -> Iterator[tuple[str, Any]]:
    """Yield the plain numbers and short words of an evidence, by their names."""
    for name, value in _parts(known):
        if isinstance(value, (bool, int, float)) or (isinstance(value, str) and 0 < len(value) <= 60):
            is_gap = isinstance(value, float) and math.isnan(value)
            if not is_gap:
                yield escape(clean_text(name.replace("_", " "))), value


def _pictures(known: Any) -> Iterator[Bars | Lines]:
    """Yield the curves of an evidence, and what it has one number of for each layer or parameter."""
    for name, value in _parts(known):
        title = name.replace("_", " ")
        if not isinstance(value, (tuple, list)) or not value:
            continue
        if len(value) >= FEWEST and all(_is_number(item) for item in value):
            yield Lines.of_losses([(title, [float(item) for item in value])], title)
        elif 2 <= len(value) <= MOST_BARS and all(_is_named_number(item) for item in value):
            names, numbers = zip(*value, strict=True)
            yield Bars(tuple(map(str, names)), tuple(map(float, numbers)), title)


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
