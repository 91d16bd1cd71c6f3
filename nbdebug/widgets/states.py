"""What the tree shows for each stage and step, read off the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nbdebug.core.finding import Result
from nbdebug.engine.decision_tree import Stage
from nbdebug.engine.decision_tree.states import alarms_in, state_of
from nbdebug.widgets.stage_tree import Stage as StageRow
from nbdebug.widgets.stage_tree import Step as StepRow

__all__ = ["stage_rows"]


def stage_rows(
    tree: Sequence[Stage], results: Mapping[str, Result], running: str = "", stale: set[str] | None = None
) -> list[StageRow]:
    """Return one row for each stage with its steps, each with its state and the number of its alarms."""
    rows: list[StageRow] = []
    for stage in tree:
        steps: list[StepRow] = [
            {
                "id": step.id,
                "title": step.label,
                "state": state_of(step.checks, results, running, stale or set()),
                "count": alarms_in(step.checks, results),
            }
            for step in stage.steps
        ]
        state = state_of(stage.checks, results, running, stale or set())
        rows.append({"id": stage.id, "title": stage.title, "state": state, "steps": steps})
    return rows
