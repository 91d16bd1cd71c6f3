"""The sentences that every form of the report shares."""

from __future__ import annotations

import unicodedata
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbdebug.report.report import Report

__all__ = ["clean_text", "counts_line", "not_seen", "verdict"]


def clean_text(text: object) -> str:
    """Make a text of the user's safe to print: control characters become visible, lone surrogates are replaced."""
    safe = str(text).encode("utf-8", "replace").decode("utf-8")
    return "".join(
        c if c in "\n\t" or unicodedata.category(c) not in {"Cc", "Cf"} else "\N{REPLACEMENT CHARACTER}" for c in safe
    )


def verdict(report: Report) -> str:
    """Say in one sentence how it stands."""
    alarms = report.alarms
    stopped = any("stopped" in note for note in report.notes)
    if not alarms:
        clean = sum(result.status == "clean" for result in report.results)
        if not clean and not report.findings:
            return "Nothing could be checked."
        return f"No illness found: {clean} checks are clean" + (", but the run was stopped early." if stopped else ".")
    first = alarms[0]
    place = f" at {clean_text(first.where)}" if first.where else ""
    others = len(alarms) - 1
    rest = f", and {others} more finding{'s' * (others > 1)}" if others else ""
    return f"The likeliest cause is {first.check}{place}{rest}."


def counts_line(report: Report) -> str:
    """Count what became of the checks."""
    count = Counter(result.status for result in report.results)
    kinds = [f"{count[status]} {status}" for status in ("found", "clean", "skipped", "crashed") if count[status]]
    return f"{len(report.results)} checks in {report.seconds:.1f} s: {', '.join(kinds) or 'none'}."


def not_seen(report: Report) -> list[str]:
    """List what was not looked at, grouped by reason, so that *never ran* does not look like *nothing found*."""
    groups: dict[tuple[str, str], list[str]] = {}
    for result in report.results:
        if result.status in ("skipped", "crashed"):
            groups.setdefault((result.status, clean_text(result.reason)), []).append(result.check)
    return [f"{status}: {', '.join(checks)} ({reason})" for (status, reason), checks in groups.items()]
