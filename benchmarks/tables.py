"""The tables of the fault benchmark, for a terminal and for the documentation."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["as_markdown", "as_text"]

HEAD = ("", "runs", "detected", "root cause first", "in the first 3", "place", "a remedy verifies", "seconds (median)")


def as_text(outcomes: Sequence[Any]) -> str:
    """Give the tables as plain text."""
    rows = [HEAD, *_summary(outcomes)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    for title, items in _lists(outcomes):
        lines += ["", f"{title}: {len(items)}", *(f"  {item}" for item in items)]
    return "\n".join(lines)


def as_markdown(outcomes: Sequence[Any]) -> str:
    """Give the tables as the page of the documentation."""
    parts = [
        "# The fault benchmark\n",
        "Made by `python -m benchmarks.faults`; every patient of every check, every kind of fault put into healthy "
        "set-ups of the zoo (`tests/zoo/`, `tests/mutants/`), and the healthy set-ups themselves. *Detected*: a check "
        "that names the root cause raised an alarm. *Place*: that finding names the module or parameter where the "
        "fault was put, counted only where there is one. *A remedy verifies*: of the remedies of that finding that can "
        "be tried on a copy, one made a short training better in two runs and the check find no more; only counted "
        "with `--verify`, and where there is one to try.\n",
        _markdown_table(HEAD, _summary(outcomes)),
        "\n## By kind of fault\n",
        _markdown_table(("fault", *HEAD[1:]), _by_fault(outcomes)),
    ]
    for title, items in _lists(outcomes):
        parts.append(f"\n## {title}: {len(items)}\n")
        parts.append("\n".join(f"- {item}" for item in items) or "None.")
    return "\n".join(parts) + "\n"


def _summary(outcomes: Sequence[Any]) -> list[tuple[str, ...]]:
    rows = [
        _row(name, [o for o in outcomes if o.group == group])
        for group, name in (("patient", "patients"), ("unseen", "written apart"), ("mutant", "mutants"))
    ]
    healthy = [o for o in outcomes if o.group == "healthy"]
    if healthy:
        alarmed = sum(bool(o.alarms) for o in healthy)
        said = f"{alarmed} with a false alarm ({alarmed / len(healthy):.1%})"
        rows.append(("healthy", str(len(healthy)), said, "", "", "", "", _seconds(healthy)))
    return [row for row in rows if row[1] != "0"]


def _by_fault(outcomes: Sequence[Any]) -> list[tuple[str, ...]]:
    kinds: dict[str, list[Any]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.group == "mutant":
            kinds[outcome.fault].append(outcome)
    return [_row(kind, found) for kind, found in sorted(kinds.items())]


def _row(name: str, outcomes: Sequence[Any]) -> tuple[str, ...]:
    placed = [o for o in outcomes if o.placed is not None]
    tried = [o for o in outcomes if o.verified is not None]
    return (
        name,
        str(len(outcomes)),
        _share(outcomes, lambda o: o.detected),
        _share(outcomes, lambda o: o.within(1)),
        _share(outcomes, lambda o: o.within(3)),
        _share(placed, lambda o: bool(o.placed)),
        _share(tried, lambda o: bool(o.verified)),
        _seconds(outcomes),
    )


def _share(outcomes: Sequence[Any], holds: Callable[[Any], bool]) -> str:
    if not outcomes:
        return "–"
    count = sum(map(holds, outcomes))
    return f"{count / len(outcomes):.1%} ({count}/{len(outcomes)})"


def _seconds(outcomes: Sequence[Any]) -> str:
    return f"{statistics.median(o.seconds for o in outcomes):.1f}" if outcomes else "–"


def _lists(outcomes: Sequence[Any]) -> list[tuple[str, list[str]]]:
    sick = [o for o in outcomes if o.group != "healthy"]
    missed = [o for o in sick if not o.detected]
    late = [o for o in sick if o.detected and not o.within(1)]
    lost = [o for o in sick if o.detected and o.placed is False]
    false = [(o, a) for o in outcomes if o.group == "healthy" for a in o.alarms]
    return [
        (
            "False alarms",
            [f"{o.host} (seed {o.seed}): {check} [{where}]: {says}" for o, (check, _, where, says) in false],
        ),
        ("Missed", [f"{o.name}: {o.error or 'said ' + _said(o)}" for o in missed]),
        ("Found, but not first", [f"{o.name}: said {_said(o)}" for o in late]),
        ("Found, but elsewhere", [f"{o.name}: expected {_expected(o)}, said {_where(o)}" for o in lost]),
        (
            "No remedy verifies",
            [f"{o.name}: {patch}: {verdict}: {says}" for o in sick for patch, verdict, says in _in_vain(o)],
        ),
        ("Crashed checks", sorted({f"{o.name}: {crash}" for o in outcomes for crash in o.crashed})),
    ]


def _in_vain(outcome: Any) -> tuple[tuple[str, str, str], ...]:
    return outcome.remedies if outcome.verified is False else ()


def _said(outcome: Any) -> str:
    return ", ".join(check for check, *_ in outcome.alarms[:5]) or "nothing"


def _expected(outcome: Any) -> str:
    return " or ".join(outcome.places[:3])


def _where(outcome: Any) -> str:
    return ", ".join(where for check, _, where, _ in outcome.alarms if check in outcome.accepted) or "nothing"


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines)
