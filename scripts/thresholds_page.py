"""The page of all thresholds: for every check the numbers that decide its verdict, and where each comes from."""

from __future__ import annotations

import ast
import inspect
import io
import json
import textwrap
import tokenize
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nbdebug.core.registry import registry
from nbdebug.engine.decision_tree import stages

__all__ = ["sources", "threshold_rows", "thresholds_page"]

MARGINS = Path(__file__).resolve().parent.parent / "benchmarks" / "results" / "threshold_margins.json"

ABOUT = """\
A check compares what was measured with numbers. These are all of them, with their defaults and where they come from:
the keyword arguments of each check, and the comment beside each. `make docs` makes this page from the code.

`nbdebug.diagnose(..., thresholds={"batch-mixing": {"influence": 0.01}})` sets another. **Our choice** means that there
may be a reason, but neither a publication nor a measurement behind the number itself; such a number is the first to
doubt when a verdict seems wrong. `tests/verdicts/` has evidence on both sides of every threshold, with the verdict on
each.

The last two columns say how far set-ups stay from a threshold (`python -m benchmarks.threshold_margins`): the check
is judged again on what was measured, with the threshold moved by factors from ÷10 to ×10, a whole number by one at
least. **Healthy**: the smallest factor at which a healthy set-up of `tests/zoo/` gets an alarm, and which one it is;
**failing**: the smallest at which a failing example is no longer found. "None" means that no verdict changes within
those factors, with the number of set-ups that were tried; an empty cell, that the threshold is no number or was not
measured. Verdicts are those of the check alone, before [the training has its say](verdicts.md).
"""


def thresholds_page() -> str:
    """Return the page, in the order of the decision tree."""
    tree = stages(registry)
    all_sources = [source for spec in registry.checks.values() for source in sources(spec.function).values()]
    own = sum("our choice" in source for source in all_sources)
    measured = json.loads(MARGINS.read_text(encoding="utf-8"))
    counted = (
        f"{len(all_sources)} thresholds of {len(registry.checks)} checks; {own} are our choice. Distances: "
        f'{measured["set_ups"]} set-ups, the healthy ones with `effort="quick"`.\n'
    )
    parts = ["# Thresholds\n", ABOUT, counted]
    for stage in tree:
        parts += [
            f"## {stage.title}\n",
            "| check | threshold | default | source | healthy | failing |",
            "|---|---|---|---|---|---|",
        ]
        for check in stage.checks:
            link = f"[{check}](checks/{check}.md)"
            margins = measured["margins"].get(check, {})
            rows = [
                f"| {link} {row} {distances(margins.get(name, {}))} |" for name, row in threshold_rows(check).items()
            ]
            parts += rows or [f"| {link} | none | | | | |"]
        parts.append("")
    return "\n".join(parts)


def distances(sides: Mapping[str, Any]) -> str:
    """Return the cells of the healthy and the failing set-up nearest to a threshold."""
    return " | ".join(_distance(sides.get(side)) for side in ("healthy", "failing"))


def _distance(margin: Mapping[str, Any] | None) -> str:
    if margin is None:
        return ""
    if margin["factor"] is None:
        return f"none of {margin['count']}"
    factor = float(margin["factor"])
    moved = "as it is" if factor == 1 else f"×{factor:.3g}" if factor > 1 else f"÷{1 / factor:.3g}"
    return f"{moved}: {margin['nearest'].partition(':')[2] or margin['nearest']} (of {margin['count']})"


def threshold_rows(check: str) -> dict[str, str]:
    """Return the name, the default and the source of each threshold of a check as a row of a table, by name."""
    spec = registry.checks[check]
    found = sources(spec.function)
    cells = {name: found[name].replace("|", "\\|") for name in spec.thresholds}
    return {name: f"| `{name}` | `{spec.thresholds[name]!r}` | {cells[name]} |" for name in cells}


def sources(function: Callable[..., Any]) -> dict[str, str]:
    """Return the comment at the end of the line of each keyword argument; empty where there is none."""
    code = textwrap.dedent(inspect.getsource(function))
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    comments = {t.start[0]: t.string.lstrip("# ") for t in tokens if t.type == tokenize.COMMENT}
    definition = ast.parse(code).body[0]
    assert isinstance(definition, ast.FunctionDef)
    return {argument.arg: comments.get(argument.lineno, "") for argument in definition.args.kwonlyargs}
