"""What every written form of a report goes through first: no samples, no file paths, no invisible characters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from nbdebug.charts import Exhibit
from nbdebug.core.finding import Finding
from nbdebug.core.text import clean_text, redacted
from nbdebug.report.report import Report

__all__ = ["LEFT_OUT", "prepared", "ready"]

T = TypeVar("T")

LEFT_OUT = "Data samples are omitted; save with include_samples=True to include them."


def prepared(report: Report, *, include_samples: bool = False) -> Report:
    """Return the report in a form that is safe to share."""
    return ready(report, include_samples=include_samples)


def ready(value: T, *, include_samples: bool = False) -> T:
    """Redact every text in a value of any shape; this is the one place where it is done."""

    def shown(leaf: Any) -> Any:
        if isinstance(leaf, str):
            return redacted(clean_text(leaf))
        if isinstance(leaf, Exhibit) and leaf.shows_samples and not include_samples:
            return leaf.without_samples()
        if isinstance(leaf, Finding) and leaf.quotes and not include_samples:
            return _unquoted(leaf)
        return leaf

    changed: T = _mapped(value, shown)
    return changed


def _unquoted(finding: Finding) -> Finding:
    """Leave out of all texts of a finding what it quotes from the data."""

    def without(leaf: Any) -> Any:
        if isinstance(leaf, str):
            for quote in finding.quotes:
                leaf = leaf.replace(quote, "…")
        return leaf

    bare: Finding = _mapped(replace(finding, quotes=()), without)
    return bare


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a copy of a nested value with every leaf changed; a leaf is what is neither container nor dataclass."""
    if isinstance(value, (Exhibit, Finding)):
        value = change(value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{part.name: _mapped(getattr(value, part.name), change) for part in fields(value)})
    if isinstance(value, Mapping):
        return {_mapped(key, change): _mapped(item, change) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and set(map(type, value)) <= {float, int}:
        return value  # a curve of a million points holds no text
    if isinstance(value, (list, tuple, set, frozenset)):
        return (list if isinstance(value, list) else tuple)(_mapped(item, change) for item in value)
    return change(value)
