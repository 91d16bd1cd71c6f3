"""From a finding to the line of the notebook that it is about."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from nbdebug.finding import Place
from nbdebug.report import Report

__all__ = ["link_of", "linked"]


def linked(report: Report, names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Give each finding with its line: the one that made the place, or else the variable that it is about."""
    return [
        {
            "check": finding.check,
            "severity": finding.severity,
            "says": finding.says,
            "where": finding.where,
            **link_of(report.places.get(finding.where), names.get(_role(finding.where), names.get("model", ""))),
        }
        for finding in report.findings
    ]


def link_of(place: Place | None, name: str) -> dict[str, Any]:
    """Give what leads to a line: the cell's number with the line and its text, a file, or the name of a variable."""
    if place is None:
        return {"cell": None, "line": None, "text": "", "file": "", "name": name}
    cell = re.fullmatch(r"cell \[(\d+)\]", place.file)
    file = "" if cell or place.file == "a cell of the notebook" else place.file
    return {"cell": int(cell[1]) if cell else None, "line": place.line, "text": place.text, "file": file, "name": name}


def _role(where: str) -> str:
    """Say which argument a place belongs to; places in a batch and in the data are the loader's."""
    if where.startswith(("batch", "loader", "sample", "label", "target", "column")):
        return "loader"
    return "loss_fn" if where.startswith("loss") else "optimizer" if where.startswith("optim") else "model"
