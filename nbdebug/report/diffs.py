"""The lines of a unified diff with their numbers, as a page shows them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["DiffLine", "ShownDiff", "shown_diff"]

HUNK = re.compile(r"^@@ -(?P<old>\d+)(,\d+)? \+(?P<new>\d+)(,\d+)? @@")
AROUND = 2  # lines of context that are shown before and after a change


class DiffLine(NamedTuple):
    """One line: its number in its own version of the file, the sign, and the text without it."""

    number: int
    sign: str  # "+", "-", or "" for a line that stays
    text: str


class ShownDiff(NamedTuple):
    """A change of one file; `line` and `text` are the place where it begins in the file as it is."""

    file: str
    line: int
    text: str
    lines: tuple[DiffLine, ...]


def shown_diff(diff: str) -> ShownDiff | None:
    """Return a unified diff for reading; None where it is none."""
    lines = list(_numbered(diff))
    changed = [place for place, line in enumerate(lines) if line.sign]
    if not changed:
        return None
    file = next((line[6:].strip() for line in diff.splitlines() if line.startswith("--- a/")), "")
    near = [line for place, line in enumerate(lines) if min(abs(place - c) for c in changed) <= AROUND]
    told = [place for place, line in enumerate(near) if line.sign or line.text.strip()]
    kept = tuple(near[told[0] : told[-1] + 1])  # without blank lines around them
    removed = next((line for line in lines if line.sign == "-"), None)
    before = next((line for line in reversed(lines[: changed[0]])), None)  # where lines are only added
    start = removed or before or lines[changed[0]]
    return ShownDiff(file, start.number, start.text.strip(), kept)


def _numbered(diff: str) -> Iterator[DiffLine]:
    old = new = 0
    for line in diff.splitlines():
        hunk = HUNK.match(line)
        if hunk is not None:
            old, new = int(hunk["old"]), int(hunk["new"])
        elif old and line[:1] in ("-", "+", " ", ""):
            sign = line[:1].strip()
            yield DiffLine(new if sign == "+" else old, sign, line[1:])
            old, new = old + (sign != "+"), new + (sign != "-")
