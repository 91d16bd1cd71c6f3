"""From a finding to the line of the notebook that it is about."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from nbdebug.core.finding import Place
from nbdebug.report import Report

__all__ = ["link_of", "linked"]

ROLES = {
    **dict.fromkeys(("batch", "loader", "sample", "label", "labels", "target", "targets", "column"), "loader"),
    **dict.fromkeys(("loss", "loss_fn"), "loss_fn"),
    "optimizer": "optimizer",
}


def linked(report: Report, names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return each finding with its line: the one that made the place, or else the variable that it is about."""
    return [
        {
            "check": finding.check,
            "severity": finding.severity,
            "says": finding.says,
            "where": finding.where,
            **link_of(report.places.get(finding.where), _name(finding.where, report, names)),
        }
        for finding in report.findings
    ]


def link_of(place: Place | None, name: str) -> dict[str, Any]:
    """Return what leads to a line: the cell's number with the line and its text, a file, or the name of a variable."""
    if place is None:
        return {"cell": None, "line": None, "text": "", "file": "", "name": name}
    file = "" if place.in_notebook else place.file
    return {"cell": place.cell, "line": place.line, "text": place.text, "file": file, "name": name}


def _name(where: str, report: Report, names: Mapping[str, str]) -> str:
    """Return the variable that a place belongs to; places in a batch and in the data are the loader's."""
    head = re.split(r"[\s.\[(]", where, maxsplit=1)[0]  # a whole word: "batchnorm" is a layer
    role = "model" if where in report.places else ROLES.get(head, "model")
    return names.get(role, names.get("model", ""))
