"""The report on one screen of a terminal: the verdict, the cause with its fix, and a line for each other finding."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from nbdebug.core.text import clean_text, plural
from nbdebug.engine.ranking import folded
from nbdebug.report.verdict import verdict
from nbdebug.report.words import counts_line, diff_title, not_examined, not_tried, tried

if TYPE_CHECKING:
    from nbdebug.core.finding import Finding
    from nbdebug.report.report import Report

__all__ = ["HEIGHT", "WIDTH", "as_screen"]

HEIGHT, WIDTH = 24, 100
FEWEST = 12  # lines of the cause and its fix that are kept, however many other findings there are
MORE = 'report.show() prints everything; report.save("report.html") writes it down.'


def as_screen(report: Report) -> str:
    """Return at most 24 lines of at most 100 characters, the most important first."""
    head = _wrapped(_cropped(verdict(report), 2 * WIDTH))
    tail = [_line(text) for text in (counts_line(report), *not_tried(report), *not_examined(report))][:3]
    causes = folded(report.findings)
    tail += [MORE] if causes or report.notes else []
    room = HEIGHT - len(head) - len(tail) - 1
    first = _cause(report, *causes[0]) if causes else []
    texts = [f"{_name(cause)}: {clean_text(cause.says)}" for cause, _ in causes[1:]]
    first = _cut(first, max(FEWEST, room - len(texts)))
    others = [line for text in texts for line in _wrapped(_cropped(text, 3 * WIDTH))]
    if len(others) > room - len(first):
        others = _counted([_line(text) for text in texts], room - len(first))
    return "\n".join([*head, "", *first, *others, *tail])


def _cause(report: Report, finding: Finding, symptoms: list[Finding]) -> list[str]:
    """Return the finding with its first fix, what came of it on a copy, and what it explains."""
    place = report.places.get(finding.where)
    lines = [_line(_name(finding) + (f" ({clean_text(place)})" if place else ""))]
    lines += _wrapped(_cropped(clean_text(finding.says), 4 * WIDTH), "    ")
    for remedy in finding.remedies[:1]:
        lines += _wrapped(_cropped(f"fix: {clean_text(remedy.says)}", 3 * WIDTH), "    ")
        lines += [f"    {diff_title(remedy)}:"] if remedy.diff else []
        lines += [_code(line) for line in clean_text(remedy.diff or remedy.code).rstrip().splitlines()]
        if (one := tried(finding, remedy)) is not None:
            lines += _wrapped(_cropped(f"tried on a copy: {clean_text(one)}", 2 * WIDTH), "    ")
    if symptoms:
        names = ", ".join(dict.fromkeys(clean_text(symptom.check) for symptom in symptoms))
        lines.append(_line(f"    explains: {names}"))
    return lines


def _name(finding: Finding) -> str:
    where = f" at {_cropped(clean_text(finding.where), 60)}" if finding.where else ""
    return f"{finding.severity} {clean_text(finding.check)}{where}"


def _line(text: str) -> str:
    """Return a text as one line that fits; its indentation stays."""
    indent = len(text) - len(text.lstrip())
    return _cropped(" " * indent + " ".join(text.split()), WIDTH).rstrip()


def _code(line: str) -> str:
    """Return a line of code that fits, with all of its blanks."""
    return _cropped(f"      {line.expandtabs(4)}", WIDTH).rstrip()


def _cropped(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _cut(lines: list[str], most: int) -> list[str]:
    return lines if len(lines) <= most else [*lines[: most - 1], "      …"]


def _counted(lines: list[str], most: int) -> list[str]:
    """Return as many lines as there is room for, the last of which counts the others."""
    if len(lines) <= most:
        return lines
    shown = lines[: max(most - 1, 0)]
    return [*shown, f"and {plural(len(lines) - len(shown), 'more finding' if shown else 'other finding')}"]


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False, break_long_words=True
    )
