"""The report as a terminal shows it: the verdict, causes with their symptoms under them, and what was not seen."""

from __future__ import annotations

import io
import sys
from typing import IO

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from nbdebug.finding import Finding
from nbdebug.ranking import folded
from nbdebug.report.report import Report
from nbdebug.report.words import clean_text, counts_line, not_seen, verdict

__all__ = ["as_text", "show"]

COLOURS = {"bug": "bold red", "suspect": "bold yellow", "note": "bold blue"}


def as_text(report: Report, width: int = 100) -> str:
    """Give the report as plain text, without colour."""
    buffer = io.StringIO()
    Console(file=buffer, width=width, color_system=None, force_jupyter=False, legacy_windows=False).print(_body(report))
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines())


def show(report: Report, file: IO[str] | None = None) -> None:
    """Print the report, in colour where the output is a terminal."""
    stream = file or sys.stdout
    if not stream.isatty():
        print(as_text(report), file=stream)
        return
    Console(file=stream, force_jupyter=False).print(_body(report))


def _body(report: Report) -> RenderableType:
    parts: list[RenderableType] = [Text(verdict(report), style="bold"), Text("")]
    for number, (cause, symptoms) in enumerate(folded(report.findings), 1):
        parts.append(_finding(cause, f"{number}."))
        parts.extend(Padding(_explained(symptom, cause), (0, 0, 0, 5)) for symptom in symptoms)
        parts.append(Text(""))
    parts.append(Text(counts_line(report)))
    parts.extend(Text(f"  {line}", style="dim") for line in not_seen(report))
    parts.extend(Text(f"Note: {clean_text(note)}", style="dim") for note in report.notes)
    return Group(*parts)


def _finding(finding: Finding, number: str) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=3)
    grid.add_column(ratio=1)
    head = Text.assemble((finding.severity, COLOURS[finding.severity]), " ", (clean_text(finding.check), "bold"))
    if finding.where:
        head.append(f"  at {clean_text(finding.where)}")
    grid.add_row(number, head)
    grid.add_row("", Text(clean_text(finding.says)))
    for remedy in finding.remedies[:2]:
        grid.add_row("", Text(f"try: {clean_text(remedy.says)}", style="green"))
        if remedy.code:
            grid.add_row(
                "", Text("".join(f"     {line}\n" for line in clean_text(remedy.code).splitlines()).rstrip("\n"))
            )
    return grid


def _explained(symptom: Finding, cause: Finding) -> Text:
    return Text(f"explains {clean_text(symptom.check)}: {clean_text(symptom.says)}", style="dim")
