"""The page of all thresholds: for every check the numbers that decide its verdict, and where each comes from."""

from __future__ import annotations

import ast
import inspect
import io
import textwrap
import tokenize
from collections.abc import Callable
from typing import Any

from nbdebug.core.registry import registry
from nbdebug.engine.decision_tree import stages

__all__ = ["sources", "threshold_rows", "thresholds_page"]

ABOUT = """\
A check compares what was measured with numbers. These are all of them, with their defaults and where they come from:
the keyword arguments of each check, and the comment beside each. `make docs` makes this page from the code.

`nbdebug.diagnose(..., thresholds={"batch-mixing": {"influence": 0.01}})` sets another. **Our choice** means that there
may be a reason, but neither a publication nor a measurement behind the number itself; such a number is the first to
doubt when a verdict seems wrong. `tests/verdicts/` has evidence on both sides of every threshold, with the verdict on
each.
"""


def thresholds_page() -> str:
    """Return the page, in the order of the decision tree."""
    tree = stages(registry)
    all_sources = [source for spec in registry.checks.values() for source in sources(spec.function).values()]
    own = sum("our choice" in source for source in all_sources)
    counted = f"{len(all_sources)} thresholds of {len(registry.checks)} checks; {own} are our choice.\n"
    parts = ["# Thresholds\n", ABOUT, counted]
    for stage in tree:
        parts += [f"## {stage.title}\n", "| check | threshold | default | source |", "|---|---|---|---|"]
        for check in stage.checks:
            link = f"[{check}](checks/{check}.md)"
            parts += [f"| {link} {row}" for row in threshold_rows(check)] or [f"| {link} | none | | |"]
        parts.append("")
    return "\n".join(parts)


def threshold_rows(check: str) -> list[str]:
    """Return the name, the default and the source of each threshold of a check as a row of a table."""
    spec = registry.checks[check]
    found = sources(spec.function)
    cells = {name: found[name].replace("|", "\\|") for name in spec.thresholds}
    return [f"| `{name}` | `{spec.thresholds[name]!r}` | {cells[name]} |" for name in cells]


def sources(function: Callable[..., Any]) -> dict[str, str]:
    """Return the comment at the end of the line of each keyword argument; empty where there is none."""
    code = textwrap.dedent(inspect.getsource(function))
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    comments = {t.start[0]: t.string.lstrip("# ") for t in tokens if t.type == tokenize.COMMENT}
    definition = ast.parse(code).body[0]
    assert isinstance(definition, ast.FunctionDef)
    return {argument.arg: comments.get(argument.lineno, "") for argument in definition.args.kwonlyargs}
