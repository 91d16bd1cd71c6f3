"""The JSON schema of a saved report, for programs in any language."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

__all__ = ["bisection_schema", "report_schema"]


def report_schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of what `report.save("report.json")` writes."""
    return _read("nbdebug.report", "report.schema.json")


def bisection_schema() -> dict[str, Any]:
    """Return the JSON schema of what `python -m nbdebug bisect --format json` prints."""
    return _read("nbdebug.engine.bisection", "bisection.schema.json")


def _read(package: str, name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((files(package) / name).read_text(encoding="utf-8"))
    return schema
