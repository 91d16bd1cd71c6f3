"""In the child: a report as the structured content of an answer, and its pictures."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nbdebug.charts.draw import as_png
from nbdebug.core.finding import Finding, Place, plain
from nbdebug.core.remedy import Remedy
from nbdebug.core.verification import Verification
from nbdebug.report import Report
from nbdebug.report.outline import Card, outline
from nbdebug.report.prepare import prepared, ready
from nbdebug.report.verdict import verdict
from nbdebug.report.words import not_tried, tried

__all__ = ["encoded", "pictures_of", "structured", "verified"]

TEXT = 3000  # characters of the text beside the structured content
PICTURES = 3


def structured(report: Report, root: Path, *, include_samples: bool = False) -> dict[str, Any]:
    """Return a report as an answer: what was found, where, by which numbers, the fixes, and what was not tried."""
    shown = prepared(report, include_samples=include_samples)
    view = outline(shown)
    crashed = [{"check": result.check, "reason": result.reason} for result, _ in view.crashed]
    return {
        "status": "partial" if report.stopped in ("interrupted", "cancelled", "out of time") else "completed",
        "verdict": verdict(shown),
        "findings": [_finding(card, cause, root) for card, cause in _numbered(shown)],
        "examined": plain(shown.setup),
        "notes": list(shown.notes),
        "not_tried": _not_tried(shown),
        "not_applicable": len(view.not_applicable),
        "clean": len(view.clean),
        "crashed_checks": crashed,
        "text": report.to_markdown(max_chars=TEXT),
    }


def _numbered(report: Report) -> list[tuple[Card, int | None]]:
    """Return every finding, in the order of the report's own list, with the number of the one that explains it."""
    found: list[tuple[Card, int | None]] = []
    view = outline(report)
    for card in (*((view.cause,) if view.cause else ()), *view.others, *view.notes):
        found += [(card, None), *((symptom, _place_in(report, card.finding)) for symptom in card.symptoms)]
    return sorted(found, key=lambda pair: _place_in(report, pair[0].finding))


def _place_in(report: Report, finding: Finding) -> int:
    """Return the number of a finding, counted from 1 in the order of the report."""
    return next(number for number, other in enumerate(report.findings, 1) if other is finding)


def _finding(card: Card, cause: int | None, root: Path) -> dict[str, Any]:
    finding = card.finding
    return {
        "check": finding.check,
        "severity": finding.severity,
        "title": card.headline,
        "says": finding.says,
        "where": finding.where,
        "place": _place(card.place, root),
        "evidence": plain(finding.evidence),
        "fixes": [_fix(finding, remedy) for remedy in finding.remedies],
        "explained_by": cause,
        "told_apart": finding.told_apart,
        "why": card.about.why,
    }


def _fix(finding: Finding, remedy: Remedy) -> dict[str, Any]:
    one = tried(finding, remedy)
    return {
        "says": remedy.says,
        "code": remedy.code,
        "diff": remedy.diff or None,
        "diff_ran": remedy.diff_ran,
        "can_be_verified": remedy.verifiable,
        "tried": {"verdict": one.verdict, "says": one.says} if one is not None else None,
    }


def _place(place: Place | None, root: Path) -> dict[str, Any] | None:
    """Return a place with its file as seen from the root, wherever the program runs."""
    if place is None:
        return None
    if place.in_notebook:
        shell = _notebook()
        return {"file": shell or place.file, "line": place.line, "text": place.text, "cell": place.cell}
    path = Path(os.getcwd(), place.file).resolve()
    file = path.relative_to(root).as_posix() if path.is_file() and path.is_relative_to(root) else place.file
    return {"file": file, "line": place.line, "text": place.text, "cell": None}


def _notebook() -> str:
    from IPython import get_ipython

    return str(getattr(get_ipython(), "nbdebug_notebook", ""))


def _not_tried(report: Report) -> list[dict[str, Any]]:
    """Return why checks that may apply were left out, with their ids."""
    kinds = list(dict.fromkeys(r.left_out for r in report.results if r.status == "skipped" and r.is_undone))
    lines = not_tried(report)
    return [
        {"reason": says, "checks": [r.check for r in report.results if r.status == "skipped" and r.left_out == kind]}
        for kind, says in zip(kinds, lines, strict=True)
    ]


def pictures_of(report: Report, *, include_samples: bool = False) -> list[dict[str, str]]:
    """Return the charts of the first findings as PNG; those that show samples only where that is allowed."""
    shown = prepared(report, include_samples=include_samples)
    drawn = [(finding.check, as_png(finding.exhibit)) for finding in shown.findings if finding.exhibit is not None]
    return encoded([(check, picture) for check, picture in drawn if picture][:PICTURES])


def encoded(pictures: Sequence[tuple[str, bytes]]) -> list[dict[str, str]]:
    """Return pictures with their titles as an answer holds them."""
    return [{"title": title, "data": base64.b64encode(data).decode("ascii")} for title, data in pictures]


def verified(finding: Finding, one: Verification, *, pictures: bool) -> dict[str, Any]:
    """Return what came of a fix that was tried on a copy."""
    shown = ready(one)
    drawn = as_png(shown.exhibit) if pictures and shown.exhibit is not None else b""
    return {
        "status": "completed",
        "check": finding.check,
        "verdict": shown.verdict,
        "says": shown.says,
        "fix": _fix(finding, shown.remedy),
        "contests": [contest.to_dict() for contest in shown.contests],
        "text": f"{shown.verdict}: {shown.remedy.says}\n\n{shown.says}",
        "pictures": encoded([("losses of both copies", drawn)] if drawn else []),
    }
