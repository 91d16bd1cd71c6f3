"""The tables of the fault benchmark, for a terminal and for the documentation."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["as_markdown", "as_text", "peers_table"]

HEAD = ("", "runs", "detected", "root cause first", "in the first 3", "place", "a remedy verifies", "seconds (median)")


def as_text(outcomes: Sequence[Any]) -> str:
    """Return the tables as plain text."""
    rows = [HEAD, *_summary(outcomes)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    for title, items in _lists(outcomes):
        lines += ["", f"{title}: {len(items)}", *(f"  {item}" for item in items)]
    return "\n".join(lines)


def as_markdown(
    outcomes: Sequence[Any], trials: Sequence[Sequence[Any]] = (), peers: dict[str, Any] | None = None
) -> str:
    """Return the tables as the page of the documentation, with blind trials and other tools where they are given."""
    parts = [
        "# The fault benchmark\n",
        "Made by `python -m benchmarks.faults`; every failing example of every check, every kind of fault put into "
        "healthy set-ups of the zoo (`tests/zoo/`, `tests/mutants/`), and the healthy set-ups themselves. "
        "*Detected*: a check that names the root cause raised an alarm. *Place*: that finding names the module or "
        "parameter where the fault was put, counted only where there is one. *A remedy verifies*: of the remedies "
        "of that finding that can be tried on a copy, one made a short training better in two runs and the check "
        "find no more; only counted with `--verify`, and where there is one to try.\n",
        _markdown_table(HEAD, _summary(outcomes)),
        *(part for number, trial in enumerate(trials, 1) for part in _trial(number, trial)),
        *(_beside_others(outcomes, peers) if peers else ()),
        "\n## By kind of fault\n",
        _markdown_table(("fault", *HEAD[1:]), _by_fault(outcomes)),
    ]
    for title, items in _lists(outcomes):
        parts.append(f"\n## {title}: {len(items)}\n")
        parts.append("\n".join(f"- {item}" for item in items) or "None.")
    return "\n".join(parts) + "\n"


def _trial(number: int, outcomes: Sequence[Any]) -> list[str]:
    """Show a blind trial: what was said about set-ups at first sight, before anything was changed for them."""
    lists = {title: items for title, items in _lists(outcomes) if title != "Crashed checks"}
    return [
        f"\n## Blind trial {number}\n",
        "Faulty and healthy set-ups written apart from the checks, in other styles than the failing examples "
        "(`tests/unseen/`, `tests/zoo/odd_*.py`, `tests/zoo/tutorial_*.py`), and run once before anything was "
        "changed for them: the figures to expect on code that nobody here has seen. False alarms have been mended "
        "in their mechanism since; `STILL_MISSED` in `tests/test_unseen.py` lists the faults that no check tells "
        "yet.\n",
        _markdown_table(HEAD, _summary(outcomes)),
        *(f"\n{title}:\n\n" + "\n".join(f"- {item}" for item in items) for title, items in lists.items() if items),
    ]


def peers_table(peers: dict[str, Any], *more: Sequence[str]) -> str:
    """Return the table of other tools, with more rows below."""
    rows = [
        (
            found["peer"],
            f"{len(found['detected']) / max(1, found['faults']):.1%} ({len(found['detected'])}/{found['faults']})",
            f"{found['false alarms'] / max(1, found['healthy']):.1%} ({found['false alarms']}/{found['healthy']})",
            f"{found['seconds']:.2g}",
        )
        for found in peers["peers"]
    ]
    head = ("tool", "faults detected", "healthy set-ups with a false alarm", "seconds (median)")
    return _markdown_table(head, [*rows, *more])


def _beside_others(outcomes: Sequence[Any], peers: dict[str, Any]) -> list[str]:
    """Show the same faults and healthy set-ups under other tools, and what those saw and nbdebug did not."""
    mutants = [o for o in outcomes if o.group == "mutant"]
    healthy = [o for o in outcomes if o.group == "healthy"]
    missed, ran = {o.name for o in mutants if not o.detected}, {o.name for o in mutants}
    better = [f"{name} ({found['peer']})" for found in peers["peers"] for name in found["detected"] if name in missed]
    both = len({name for found in peers["peers"] for name in found["detected"]} & ran)
    alarmed = f"{sum(bool(o.alarms) for o in healthy) / max(1, len(healthy)):.1%}"
    own = ("nbdebug", _share(mutants, lambda o: o.detected), alarmed, _seconds(mutants))
    return [
        "\n## Other tools\n",
        f"Measured on {peers['date']} with torch {peers['torch']} by `python -m benchmarks.peers`, each tool called as "
        "its README says. A tool counts as having detected a fault if it says anything that it does not say about the "
        "healthy version; nbdebug has to name the cause. The others are quicker, most of them by far, and most of them "
        "were made for less: torcheck and torch-audit watch a running training, torchtest2 and preflight-ml are a few "
        "assertions, neural-net-checklist is for classifiers and language models.\n",
        peers_table(peers, own),
        f"\nOf {both} faults that another tool saw and nbdebug was run on as well, nbdebug missed: "
        + (", ".join(better) or "none")
        + ".",
    ]


def _summary(outcomes: Sequence[Any]) -> list[tuple[str, ...]]:
    rows = [
        _row(name, [o for o in outcomes if o.group == group])
        for group, name in (("failing example", "failing examples"), ("unseen", "written apart"), ("mutant", "mutants"))
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
        ("Crashed checks", sorted({f"{o.name}: {crash.splitlines()[0]}" for o in outcomes for crash in o.crashed})),
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
