"""Two reports of the same model, before and after: what was fixed, what is new, what is unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nbdebug.core.finding import Finding
from nbdebug.core.text import clean_text, shortened
from nbdebug.report.report import Report

__all__ = ["Difference", "difference"]


@dataclass(frozen=True)
class Difference:
    """The findings of one report compared with a later one.

    `unseen` holds findings whose check did not run the second time: it is unknown whether they are fixed.
    """

    fixed: tuple[Finding, ...]
    new: tuple[Finding, ...]
    changed: tuple[tuple[Finding, Finding], ...]
    still: tuple[tuple[Finding, Finding], ...]
    unseen: tuple[tuple[Finding, str], ...]

    @property
    def is_worse(self) -> bool:
        """Whether an alarm is new or has become more severe."""
        graver = any(after.severity == "bug" or not before.is_alarm for before, after in self.changed if after.is_alarm)
        return graver or any(finding.is_alarm for finding in self.new)

    def groups(self) -> Iterator[tuple[str, list[tuple[Finding, str]]]]:
        """Yield the findings under headings, each with a remark."""
        yield "Fixed", [(finding, "") for finding in self.fixed]
        yield "New", [(finding, "") for finding in self.new]
        yield "Changed", [(after, f"was {before.severity}") for before, after in self.changed]
        yield "Unchanged", [(after, "") for _, after in self.still]
        yield "Not rechecked", list(self.unseen)

    def headline(self) -> str:
        """Return the counts in one sentence."""
        counts = [f"{len(found)} {title.lower()}" for title, found in self.groups() if found]
        return f"{', '.join(counts)}." if counts else "No findings before or after."

    def __str__(self) -> str:
        """Return the text for a terminal."""
        lines = [self.headline()]
        for title, found in self.groups():
            if found:
                lines += ["", f"{title}:", *(f"  {_line(finding, remark)}" for finding, remark in found)]
        return "\n".join(lines)

    def __repr__(self) -> str:
        """Return one line."""
        return f"<nbdebug difference: {self.headline()}>"

    def _repr_html_(self) -> str:
        from nbdebug.report.page import difference_fragment

        return difference_fragment(self)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}


def difference(before: Report, after: Report) -> Difference:
    """Match findings of the same check at the same place, in order."""
    left = list(after.findings)
    pairs: list[tuple[Finding, Finding]] = []
    gone: list[Finding] = []
    for finding in before.findings:
        match = next((other for other in left if _place(other) == _place(finding)), None)
        if match is None:
            gone.append(finding)
        else:
            left.remove(match)
            pairs.append((finding, match))
    unseen = [(finding, why) for finding in gone if (why := _why_unseen(finding.check, after))]
    hidden = {id(finding) for finding, _ in unseen}
    return Difference(
        fixed=tuple(finding for finding in gone if id(finding) not in hidden),
        new=tuple(left),
        changed=tuple(pair for pair in pairs if pair[0].severity != pair[1].severity),
        still=tuple(pair for pair in pairs if pair[0].severity == pair[1].severity),
        unseen=tuple(unseen),
    )


def _place(finding: Finding) -> tuple[str, str]:
    return finding.check, finding.where


def _why_unseen(check: str, report: Report) -> str:
    """Return why a check has no result; empty if it has one."""
    result = next((result for result in report.results if result.check == check), None)
    if result is None:
        return "the check did not run"
    return f"{result.status}: {result.reason}" if result.status in ("skipped", "crashed") else ""


def _line(finding: Finding, remark: str) -> str:
    place = f" at {clean_text(finding.where)}" if finding.where else ""
    said = shortened(clean_text(finding.says), 300)
    return f"{finding.severity} {finding.check}{place}: {said}" + (f" ({clean_text(remark)})" if remark else "")
