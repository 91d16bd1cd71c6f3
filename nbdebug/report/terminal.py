"""The report as a terminal shows it: the verdict, causes with their symptoms under them, and what was not seen."""

from __future__ import annotations

import io
import sys
from typing import IO

from nbdebug.core.finding import Finding, Place
from nbdebug.core.rng_safe_import import drawing_nothing
from nbdebug.core.text import clean_text
from nbdebug.engine.decision_tree import said
from nbdebug.engine.ranking import folded
from nbdebug.report.report import Report
from nbdebug.report.verdict import verdict
from nbdebug.report.words import counts_line, diff_title, not_seen, tried

with drawing_nothing():
    from rich.console import Console, Group, RenderableType
    from rich.table import Table
    from rich.text import Text

__all__ = ["as_text", "show"]

COLORS = {"bug": "bold red", "suspect": "bold yellow", "note": "bold blue"}


def as_text(report: Report, width: int = 100) -> str:
    """Return the report as plain text, without color."""
    buffer = io.StringIO()
    Console(file=buffer, width=width, color_system=None, force_jupyter=False, legacy_windows=False).print(_body(report))
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines())


def show(report: Report, file: IO[str] | None = None) -> None:
    """Print the report, in color if the output is a terminal."""
    stream = file or sys.stdout
    if not stream.isatty():
        print(as_text(report), file=stream)
        return
    Console(file=stream, force_jupyter=False).print(_body(report))


def _body(report: Report) -> RenderableType:
    parts: list[RenderableType] = [Text(verdict(report), style="bold"), Text("")]
    for number, (cause, symptoms) in enumerate(folded(report.findings), 1):
        parts.append(_finding(cause, f"{number}.", report.places.get(cause.where)))
        parts.extend(_hanging("", _explained(symptom), 4) for symptom in symptoms)
        parts.append(Text(""))
    told = said(report.symptom, report.answers)
    parts.extend(
        _hanging("", Text(f"Your answer: {clean_text(item.question)} {clean_text(item.answer)}"), 0) for item in told
    )
    parts.append(Text(counts_line(report)))
    parts.extend(_hanging("", Text(line, style="dim"), 2) for line in not_seen(report))
    parts.extend(_hanging("", Text(f"Note: {clean_text(note)}", style="dim"), 0) for note in report.notes)
    return Group(*parts)


def _finding(finding: Finding, number: str, place: Place | None) -> RenderableType:
    head = Text.assemble((finding.severity, COLORS[finding.severity]), " ", (clean_text(finding.check), "bold"))
    if finding.where:
        head.append(f"  at {clean_text(finding.where)}" + (f" ({clean_text(place)})" if place else ""))
    parts = [_hanging(number, head, 4), _hanging("", Text(clean_text(finding.says)), 4)]
    for remedy in finding.remedies[:2]:
        parts.append(_hanging("", Text(f"try: {clean_text(remedy.says)}", style="green"), 4))
        if remedy.code:
            parts.append(_hanging("", Text(clean_text(remedy.code).rstrip()), 9))
        if remedy.diff:
            parts.append(_hanging("", Text(f"{diff_title(remedy)}:"), 4))
            parts.append(_hanging("", _diff(clean_text(remedy.diff).rstrip()), 9))
        if (one := tried(finding, remedy)) is not None:
            parts.append(_hanging("", Text(f"tried on a copy: {clean_text(one)}", style="cyan"), 4))
    return Group(*parts)


def _diff(text: str) -> Text:
    """Color the lines of a diff by what is added and what is taken away."""
    colors = {"+": "green", "-": "red", "@": "cyan"}
    return Text("\n").join(Text(line, style=colors.get(line[:1], "")) for line in text.splitlines())


def _explained(symptom: Finding) -> Text:
    return Text(f"explains {clean_text(symptom.check)}: {clean_text(symptom.says)}", style="dim")


def _hanging(mark: str, text: Text, indent: int) -> RenderableType:
    """Keep every line of a wrapped text to the right of its mark."""
    if not indent:
        return text
    grid = Table.grid(padding=0)
    grid.add_column(width=indent)
    grid.add_column(overflow="fold")
    grid.add_row(mark, text)
    return grid
