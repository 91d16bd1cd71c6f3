"""The state of each part of the tree, derived from the results, and the icon for each state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Literal

from nbdebug.core.finding import Result

__all__ = ["ICONS", "WORDS", "State", "alarms_in", "state_of"]

State = Literal["not-run", "running", "clean", "found", "skipped", "crashed", "stale"]

# A shape for each state, so that color is never the only sign; the same as in js/src/stages.ts.
ICONS: dict[State, str] = {
    "not-run": "○",
    "running": "◐",
    "clean": "✓",
    "found": "▲",
    "skipped": "–",
    "crashed": "✕",
    "stale": "↻",
}
WORDS: dict[State, str] = {state: state for state in ICONS} | {"not-run": "not run", "stale": "out of date"}


def alarms_in(checks: Sequence[str], results: Mapping[str, Result]) -> int:
    """Count the alarms that these checks raised."""
    return sum(f.is_alarm for check in checks if check in results for f in results[check].findings)


def state_of(
    checks: Sequence[str], results: Mapping[str, Result], running: str = "", stale: Set[str] = frozenset()
) -> State:
    """Return the state of a step or a stage from the results of its checks."""
    if running and running in checks:
        return "running"
    known = [results[check] for check in checks if check in results]
    if not known:
        return "stale" if stale & set(checks) else "not-run"
    if alarms_in(checks, results):
        return "found"
    if any(result.status == "crashed" for result in known):
        return "crashed"
    if len(known) < len(checks):
        return "not-run"
    return "skipped" if all(result.status == "skipped" for result in known) else "clean"
