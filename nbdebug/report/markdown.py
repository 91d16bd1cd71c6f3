"""Escape user text for Markdown, and render the summary for pull requests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from nbdebug.charts import Exhibit, Table
from nbdebug.core.finding import Finding, Place
from nbdebug.core.text import figure, plural, shortened
from nbdebug.report.outline import Card, Outline, outline
from nbdebug.report.prepare import prepared
from nbdebug.report.report import Report
from nbdebug.report.verdict import verdict
from nbdebug.report.words import counts_line, diff_title, tried

__all__ = ["as_summary", "code", "evidence", "fence", "prose", "remedies", "rows_of", "said_table", "table"]

# Every mark of punctuation becomes a character reference, which no dialect of markdown takes for syntax.
_MARKS = re.compile(r"[!-,./:-@\[-`{-~]")
_HARMLESS = ",.%:()=/'"  # within a line that begins with a word of ours; left as they are for those who read the source
# These act on the rendered text: formulas, mentions of people and of issues. Inside <code> they have no effect.
_LATE = re.compile(r"(?:\$|\\(?=[(\[{a-zA-Z])|@|#(?=\d))")


def prose(text: object, limit: int = 1500) -> str:
    """Escape a text so that it renders verbatim, on one line."""
    line = shortened(" ".join(str(text).split()), limit)
    parts = _LATE.split(line)
    marks = [f"<code>{_references(mark)}</code>" for mark in _LATE.findall(line)]
    return "".join(_references(part) + mark for part, mark in zip(parts, [*marks, ""], strict=True))


def sentence(text: object, limit: int = 1500) -> str:
    """Escape a sentence of a finding or a fix, and show what it puts between backticks as code."""
    parts = shortened(" ".join(str(text).split()), limit).split("`")
    return "".join(code(part, limit) if i % 2 else _spaced(part) for i, part in enumerate(parts))


def _spaced(part: str) -> str:
    """Escape a piece of a line and keep the spaces at its ends, which `prose` would drop."""
    return f"{' ' * part[:1].isspace()}{prose(part)}{' ' * part[-1:].isspace()}" if part.strip() else part


def code(text: object, limit: int = 120) -> str:
    """Return a name as code within a line or a cell of a table."""
    return f"<code>{_references(shortened(' '.join(str(text).split()), limit))}</code>"


def _references(text: str) -> str:
    text = _MARKS.sub(lambda mark: mark[0] if mark[0] in _HARMLESS else f"&#{ord(mark[0])};", text)
    return text.replace("://", "&#58;//").replace("www.", "www&#46;")  # these become links by themselves


def fence(text: str, language: str = "python") -> str:
    """Return lines of code in a fence that is longer than any in the code."""
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{ticks}{language}\n{shortened(text, 4000)}\n{ticks}"


def table(columns: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; cells may hold markup that was made by `prose` or `code`."""
    lines = ["| " + " | ".join(map(str, columns)) + " |", "|" + " --- |" * len(columns)]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def evidence(finding: Finding) -> str:
    """Return the evidence of a finding as a table."""
    rows = [(prose(key, 80), prose(figure(value), 400)) for key, value in finding.evidence.items()]
    return table(("measurement", "value"), rows) if rows else ""


def rows_of(exhibit: Exhibit | None, most: int = 30) -> str:
    """Return the table of a finding's exhibit."""
    if not isinstance(exhibit, Table) or not exhibit.columns or exhibit.is_left_out:
        return ""
    title = f"**{prose(exhibit.title)}**\n\n" if exhibit.title else ""
    rows = [[prose(figure(cell), 200) for cell in row] for row in exhibit.rows[:most]]
    more = f"\n\n… and {len(exhibit.rows) - most} more rows." if len(exhibit.rows) > most else ""
    return f"{title}{table([prose(column, 80) for column in exhibit.columns], rows)}{more}"


def remedies(finding: Finding, most: int | None = None) -> list[str]:
    """Return the fixes as paragraphs, with the outcome where one was tried on a copy."""
    parts: list[str] = []
    for item in finding.remedies[:most]:
        parts += [f"Try: {sentence(item.says)}", fence(item.code) if item.code else ""]
        if item.diff:
            parts += [f"{prose(diff_title(item))}:", fence(item.diff.rstrip(), "diff")]
        if (one := tried(finding, item)) is not None:
            parts.append(f"Tried on a copy: **{one.verdict}**: {sentence(one.says)}")
    return [part for part in parts if part]


def said_table(view: Outline) -> str:
    """Return the user's answers, and what follows from them."""
    rows = [(prose(item.question, 300), prose(item.answer, 400), prose(item.follows, 600)) for item in view.said]
    return table(("question", "your answer", "what follows"), rows)


def as_summary(report: Report) -> str:
    """Return the report as a short comment for a pull request."""
    report = prepared(report)
    view = outline(report)
    parts = [f"## nbdebug: {prose(view.cause.headline if view.cause else verdict(report), 200)}", counts_line(report)]
    if view.cause:
        parts += _cause(view.cause)
    if view.others:
        parts += ["### Other findings", _list(view.others)]
    if view.notes:
        parts += [_folded(f"{plural(len(view.notes), 'note')} (information only)", _list(view.notes))]
    if view.said:
        parts += ["### Your answers", said_table(view)]
    unseen = [f"- {code(r.check)}: {prose(r.reason, 300)}" for r, _ in view.skipped]
    unseen += [f"- crashed: {code(r.check)}: {prose(r.reason, 300)}" for r, _ in view.crashed]
    if unseen:
        parts += [_folded("Skipped checks and reasons", "\n".join(unseen))]
    if view.clean:
        parts += [_folded(f"{plural(len(view.clean), 'check')} clean", ", ".join(code(r.check) for r, _ in view.clean))]
    facts = [f"{prose(key, 80)} {prose(figure(value), 200)}" for key, value in report.environment.items()]
    return "\n\n".join([*parts, f"<sub>{' · '.join(facts)}</sub>"]) + "\n"


def _cause(cause: Card) -> list[str]:
    finding = cause.finding
    place = f" at {code(finding.where)}" if finding.where else ""
    parts = [
        f"**{finding.severity}** {code(finding.check)}{place}",
        sentence(finding.says),
        made_in(cause.place),
        evidence(finding),
        *remedies(finding, 2),
    ]
    if cause.symptoms:
        parts.append("It explains " + ", ".join(code(s.finding.check) for s in cause.symptoms) + ".")
    return [part for part in parts if part]


def made_in(place: Place | None, link: str = "") -> str:
    """Return the line of code that defines the module, as a link if there is one; empty if unknown."""
    if place is None:
        return ""
    name = prose(str(place), 120)
    return f"Defined in {f'[{name}]({link})' if link else name}" + (f": {code(place.text)}" if place.text else "")


def _list(cards: Sequence[Card], most: int = 30) -> str:
    lines = [
        f"- **{card.finding.severity}** {code(card.finding.check)}"
        + (f" at {code(card.finding.where)}" if card.finding.where else "")
        + f": {sentence(card.finding.says, 300)}"
        for card in cards[:most]
    ]
    return "\n".join(lines + ([f"- … and {len(cards) - most} more"] if len(cards) > most else []))


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"
