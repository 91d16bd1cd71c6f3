"""The answer of a bisection over revisions: what was exchanged, or the first commit that fails."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbdebug.core.text import figure, plural
from nbdebug.engine.bisection.result import Bisection
from nbdebug.engine.bisection.revisions.repository import Revision
from nbdebug.engine.bisection.revisions.walking import Step, Walk

__all__ = ["RevisionBisection"]

SCHEMA = 1
DIFF_LINES = 40  # of the first bad commit on a screen
COLUMNS = ("revision", "date", "subject", "verdict", "metric")
SHARES = ("accuracy", "balanced accuracy", "explained variance")


@dataclass
class RevisionBisection:
    """Two revisions with what came of them: `exchange` where their objects could be exchanged, `walk` where not."""

    good: Revision
    bad: Revision
    exchange: Bisection | None = None
    walk: Walk | None = None
    notes: list[str] = field(default_factory=list)
    stopped: str = ""
    seconds: float = 0.0

    @property
    def outcome(self) -> str:
        """How it came out, in the words of `Bisection.outcome`; a walk that found commits is `explained`."""
        if self.walk is not None and self.walk.outcome not in ("", "not walked"):
            return "explained" if self.walk.outcome == "found" else self.walk.outcome
        if self.stopped:
            return "stopped"
        return self.exchange.outcome if self.exchange is not None else "not explained"

    @property
    def says(self) -> str:
        """The answer in a sentence or two."""
        if self.walk is not None and self.walk.outcome:
            return self._walked(self.walk)
        if self.exchange is not None and not (self.walk is not None and self.stopped):
            return self.exchange.says
        if self.walk is not None and self.walk.suspects:
            first, last = self.walk.suspects[-1], self.walk.suspects[0]
            several = f"{plural(len(self.walk.suspects), 'commit')} from {first.short} to {last.short}"
            return f"Stopped ({self.stopped}). The first commit that fails is among the {several}."
        return f"Stopped ({self.stopped}) before anything was known." if self.stopped else "Nothing was found."

    def _walked(self, walk: Walk) -> str:
        ends = [self._value(step.value) for step in walk.steps[:2]]
        values = f"(`good`: {ends[0]}, `bad`: {ends[1]})" if len(ends) > 1 else ""
        if walk.first_bad is not None:
            return f"The first commit that fails is {walk.first_bad} {values}."
        several = ", ".join(revision.short for revision in walk.suspects)
        said = {
            "found": f"The first commit that fails is one of {several}; the others could not be tested {values}.",
            "good fails": f"`good` does not learn either: {self.good}. {walk.reason} Name a revision that learns.",
            "both learn": f"Both learn: there is nothing to explain {values}.",
            "slower": f"Both learn: `bad` gets there as well, only more slowly {values}.",
            "depends on the start": f"No commit is named, because it depends on the random start {values}.",
            "not measured": f"The two cannot be compared: {walk.reason}.",
            "not walked": f"{self.exchange.says if self.exchange else 'The two cannot be exchanged.'} "
            f"The commits between them were not walked: {walk.reason}.",
        }
        return said[walk.outcome]

    def _value(self, value: float | None) -> str:
        measure = self.walk.measure if self.walk is not None else ""
        if value is None:
            return "not trained"
        return f"{value:.0%}" if measure in SHARES else f"{measure} {figure(value)}"

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """Return the revisions of the walk, in the order in which they were trained."""
        steps = self.walk.steps if self.walk is not None else []
        return [_row(step, self._value(step.value)) for step in steps]

    def __str__(self) -> str:
        """Return the answer for a terminal."""
        lines = [f"good  {self.good}", f"bad   {self.bad}", *self.notes]
        if self.exchange is not None:
            lines += [str(self.exchange)]
        if self.walk is not None:
            lines += [f"<nbdebug walk: {self.says}>"]
            lines += [
                f"  {short}  {date}  {verdict}, {value}  {subject}"
                for short, date, subject, verdict, value in self.rows()
            ]
            diff = self.walk.diff.splitlines()
            lines += [f"    {line}" for line in diff[:DIFF_LINES]]
            lines += [f"    … {plural(len(diff) - DIFF_LINES, 'more line')}"] if len(diff) > DIFF_LINES else []
            lines += [f"  {self.walk.training_steps:,} training steps on copies in {self.seconds:.0f} s."]
        elif self.exchange is None:
            lines.append(self.says)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from nbdebug.views.page import code, lines, page, table

        parts = [lines([f"good: {self.good}", f"bad: {self.bad}", *self.notes])]
        if self.walk is not None:
            parts += [table(COLUMNS, self.rows()), code(self.walk.diff) if self.walk.diff else ""]
        if self.exchange is not None:
            parts.append(self.exchange._repr_html_())
        return page(self.says.replace("`", ""), *parts)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as data for JSON."""
        return {
            "schema": SCHEMA,
            "outcome": self.outcome,
            "says": self.says,
            "good": self.good.to_dict(),
            "bad": self.bad.to_dict(),
            "exchange": self.exchange.to_dict() if self.exchange is not None else None,
            "walk": self.walk.to_dict() if self.walk is not None else None,
            "notes": list(self.notes),
            "stopped": self.stopped,
            "seconds": self.seconds,
        }

    def save(self, path: str | Path) -> Path:
        """Write the answer as .html or .json."""
        from nbdebug.engine.bisection.showing import as_page, written

        forms = {
            ".html": lambda: as_page(self._repr_html_()),
            ".json": lambda: json.dumps(self.to_dict(), indent=1) + "\n",
        }
        return written(forms, Path(path))


def _row(step: Step, value: str) -> tuple[str, str, str, str, str]:
    verdict = f"{step.verdict}: {step.reason}" if step.reason else step.verdict
    return step.revision.short, step.revision.date[:10], step.revision.subject, verdict, value
