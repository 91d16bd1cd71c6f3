"""The report as a terminal shows it."""

from __future__ import annotations

from nbdebug.report.report import Report

__all__ = ["as_text", "show"]


def as_text(report: Report) -> str:
    """Give the report as plain text."""
    return "\n".join(str(f) for f in report.findings) or "nothing found"


def show(report: Report) -> None:
    """Print the report."""
    print(as_text(report))
