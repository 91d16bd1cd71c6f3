"""What the tree shows for each stage and step, read off the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nbdebug.decision_tree import Stage
from nbdebug.finding import Result
from nbdebug.widgets.stage_tree import Stage as StageRow
from nbdebug.widgets.stage_tree import State
from nbdebug.widgets.stage_tree import Step as StepRow

__all__ = ["stage_rows"]


def stage_rows(
    tree: Sequence[Stage], results: Mapping[str, Result], running: str = "", stale: set[str] | None = None
) -> list[StageRow]:
    """Give one row for each stage with its steps, each with its state and the number of its alarms."""
    rows: list[StageRow] = []
    for stage in tree:
        steps: list[StepRow] = [
            {
                "id": step.id,
                "title": step.question,
                "state": _state(step.checks, results, running, stale or set()),
                "count": _alarms(step.checks, results),
            }
            for step in stage.steps
        ]
        state = _state(stage.checks, results, running, stale or set())
        rows.append({"id": stage.id, "title": stage.title, "state": state, "steps": steps})
    return rows


def _alarms(checks: Sequence[str], results: Mapping[str, Result]) -> int:
    return sum(f.is_alarm for check in checks if check in results for f in results[check].findings)


def _state(checks: Sequence[str], results: Mapping[str, Result], running: str, stale: set[str]) -> State:
    if running and running in checks:
        return "running"
    known = [results[check] for check in checks if check in results]
    if not known:
        return "stale" if stale & set(checks) else "not-run"
    if _alarms(checks, results):
        return "found"
    if any(result.status == "crashed" for result in known):
        return "crashed"
    if len(known) < len(checks):
        return "not-run"
    return "skipped" if all(result.status == "skipped" for result in known) else "clean"
