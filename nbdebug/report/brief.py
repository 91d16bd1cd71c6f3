"""The report as Markdown of a limited length, to paste into a chat: what is left out is named, never cut in two."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.text import figure, plural, shortened
from nbdebug.errors import BadInput
from nbdebug.report.markdown import fence
from nbdebug.report.outline import Card, Outline, outline
from nbdebug.report.prepare import prepared
from nbdebug.report.report import Report
from nbdebug.report.verdict import verdict
from nbdebug.report.words import counts_line, diff_title, tried

__all__ = ["FEWEST", "as_brief"]

FEWEST = 400  # characters; the verdict and the first finding need about as many
UNTESTED = "what was not tested"
_ACTIVE = re.compile(r"[\\*_<>\[\]|~#$@]|(?<=\w)://|(?<=\bwww)\.|`")


@dataclass(frozen=True)
class Block:
    """A part of the text that stands or falls as a whole; those with the smallest `rank` are kept longest."""

    rank: int
    kind: str
    text: str


def as_brief(report: Report, max_chars: int | None = None) -> str:
    """Return the report as Markdown of at most so many characters; without a number, all of it."""
    if max_chars is not None and (isinstance(max_chars, bool) or not isinstance(max_chars, int) or max_chars < FEWEST):
        raise BadInput(
            f"it is {max_chars!r}",
            where="max_chars",
            expected=f"a whole number of at least {FEWEST}, or None",
            do="write report.to_markdown(max_chars=4000)",
        )
    return _fitted(list(_blocks(prepared(report))), max_chars)


def _fitted(blocks: list[Block], limit: int | None) -> str:
    """Leave out blocks, the least important and the last of them first, until the text fits."""
    dropped: set[int] = set()
    text = _joined(blocks, dropped)
    for place in sorted(range(len(blocks)), key=lambda place: (-blocks[place].rank, -place)):
        if limit is None or len(text) <= limit or blocks[place].rank == 0:
            break
        dropped.add(place)
        text = _joined(blocks, dropped)
    return text if limit is None or len(text) <= limit else text[: limit - 2].rstrip("\\") + "…\n"


def _joined(blocks: list[Block], dropped: set[int]) -> str:
    left = [blocks[place].kind for place in dropped]
    names = [_counted(left.count(kind), kind) for kind in ("finding", "note", UNTESTED, "detail") if kind in left]
    more = [f"Left out for length: {', '.join(names)}."] if names else []
    return "\n\n".join([*(block.text for place, block in enumerate(blocks) if place not in dropped), *more]) + "\n"


def _counted(count: int, kind: str) -> str:
    return plural(count, kind) if kind in ("finding", "note") else "details" if kind == "detail" else kind


def _blocks(report: Report) -> Iterator[Block]:
    view = outline(report)
    head = view.cause.headline if view.cause else verdict(report)
    yield Block(0, "detail", f"# nbdebug: {line(head, 160)}")
    if view.cause:
        yield Block(1, "detail", line(verdict(report)))
    alarms = [card for card in (view.cause, *view.others) if card is not None]
    for number, card in enumerate(alarms, 1):
        yield from _alarm(card, number)
    if view.notes:
        yield Block(6, "detail", "## Notes (information only)")
        yield from (Block(6, "note", f"- {_place(card)}: {line(card.finding.says, 300)}") for card in view.notes)
    yield from _coverage(report, view)


def _alarm(card: Card, number: int) -> Iterator[Block]:
    """Yield what is claimed, the fixes, the evidence; of the first finding everything is more important."""
    finding, first = card.finding, number == 1
    yield Block(0 if first else 2, "finding", f"## {number}. {_place(card)}\n\n{line(finding.says, 500)}")
    for index, remedy in enumerate(finding.remedies):
        yield Block((1 if first else 3) + min(index, 2), "detail", _remedy(finding, remedy))
    if finding.evidence:
        rows = [f"- {line(key, 80)}: {line(figure(value), 300)}" for key, value in finding.evidence.items()]
        yield Block(2 if first else 4, "detail", "\n".join(["Evidence:", *rows]))
    if finding.told_apart:
        yield Block(3 if first else 5, "detail", line(finding.told_apart))
    if card.symptoms:
        names = ", ".join(code(symptom.finding.check) for symptom in card.symptoms)
        yield Block(3 if first else 4, "detail", f"It explains {names}.")
    if card.about.why:
        yield Block(5, "detail", f"Why it matters: {line(card.about.why)}")


def _place(card: Card) -> str:
    where = f" at {code(card.finding.where)}" if card.finding.where else ""
    made = f" ({code(str(card.place))})" if card.place else ""
    return f"{card.finding.severity} {code(card.finding.check)}{where}{made}"


def _remedy(finding: Finding, remedy: Remedy) -> str:
    parts = [f"Try: {line(remedy.says)}"] + ([fence(remedy.code)] if remedy.code else [])
    if remedy.diff:
        parts += [f"{diff_title(remedy)}:", fence(remedy.diff.rstrip(), "diff")]
    if (one := tried(finding, remedy)) is not None:
        parts.append(f"Tried on a copy: **{one.verdict}**: {line(one.says)}")
    return "\n\n".join(parts)


def _coverage(report: Report, view: Outline) -> Iterator[Block]:
    """Yield what was not tested, so that *never ran* does not look like *nothing found*."""
    lines = [f"- crashed: {code(result.check)}: {line(result.reason, 200)}" for result, _ in view.crashed]
    lines += [f"- {line(said)}" for said in view.not_tried]
    if view.not_applicable:
        lines.append(f"- {plural(len(view.not_applicable), 'check')} not applicable.")
    if lines:
        yield Block(2, UNTESTED, "\n".join(["## Not tested", "", *lines]))
    yield from (Block(5, "detail", line(note)) for note in report.notes)
    facts = [f"{line(key, 80)} {line(figure(value), 120)}" for key, value in report.environment.items()]
    yield Block(5, "detail", ", ".join([counts_line(report).rstrip("."), *facts]) + ".")


def line(text: object, limit: int = 800) -> str:
    """Return a text on one line in which nothing is markup, but what stands between backticks."""
    parts = shortened(" ".join(str(text).split()), limit).split("`")
    if len(parts) % 2 == 0:  # a single backtick opens nothing
        parts = ["`".join(parts)]
    plain = [_ACTIVE.sub(_literal, part) if i % 2 == 0 else code(part, limit) for i, part in enumerate(parts)]
    return re.sub(r"^([-+]|\d+[.)])(?=\s)", r"\\\1", "".join(plain))


def _literal(mark: re.Match[str]) -> str:
    """Write a mark so that it shows as it is; an address or a mention must not become a link."""
    return {"://": "&#58;//", ".": "&#46;", "@": "&#64;"}.get(mark[0], f"\\{mark[0]}")


def code(text: object, limit: int = 160) -> str:
    """Return a name as code; the run of backticks around it is longer than any within."""
    name = shortened(" ".join(str(text).split()), limit)
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", name)), default=0))
    space = " " if name.startswith("`") or name.endswith("`") else ""
    return f"{ticks}{space}{name}{space}{ticks}" if name else ""
