"""The JSON schema of a saved report, for programs in any language."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

__all__ = ["report_schema"]


def report_schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of what `report.save("report.json")` writes."""
    text = (files("nbdebug.report") / "report.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
