"""What the tree shows for each stage and step, read off the results and the answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from nbdebug.core.finding import Result
from nbdebug.engine.decision_tree import Stage, Step, questions, whole_tree
from nbdebug.engine.decision_tree.states import State, alarms_in, state_of
from nbdebug.engine.session import Session
from nbdebug.widgets.improving import STEP as DECOMPOSITION
from nbdebug.widgets.stage_tree import Stage as StageRow
from nbdebug.widgets.stage_tree import Step as StepRow

__all__ = ["rows_of", "stage_rows"]


def rows_of(
    session: Session, running: str, stale: set[str], passed: Collection[str], improving: State
) -> list[StageRow]:
    """Return the rows of a session; `passed` are steps without checks that were skipped."""
    journal, tree = session.journal, whole_tree(session.registry)
    done: dict[str, State] = dict.fromkeys(passed, "skipped")
    done |= {step.id: "clean" for stage in tree for step in stage.steps if _is_answered(step, journal.answers)}
    done[DECOMPOSITION.id] = improving
    return stage_rows(tree, {result.check: result for result in journal.results}, running, stale, done)


def stage_rows(
    tree: Sequence[Stage],
    results: Mapping[str, Result],
    running: str = "",
    stale: set[str] | None = None,
    done: Mapping[str, State] | None = None,
) -> list[StageRow]:
    """Return one row for each stage with its steps, each with its state and the number of its alarms.

    `done` holds the state of steps that have no checks: questions that were answered, and what was skipped.
    """
    rows: list[StageRow] = []
    for stage in tree:
        steps: list[StepRow] = [
            {
                "id": step.id,
                "title": step.label,
                "state": _state(step, results, running, stale or set(), done or {}),
                "count": alarms_in(step.checks, results),
            }
            for step in stage.steps
        ]
        state = state_of(stage.checks, results, running, stale or set()) if stage.checks else _joint(steps)
        rows.append({"id": stage.id, "title": stage.title, "state": state, "steps": steps})
    return rows


def _state(
    step: Step, results: Mapping[str, Result], running: str, stale: Collection[str], done: Mapping[str, State]
) -> State:
    if step.checks:
        return state_of(step.checks, results, running, set(stale))
    return done.get(step.id, "not-run")


def _joint(steps: Sequence[StepRow]) -> State:
    """Return the state of a stage of which no step has checks."""
    states = {step["state"] for step in steps}
    return next((state for state in ("running", "not-run", "clean") if state in states), "skipped")


def _is_answered(step: Step, answers: Collection[str]) -> bool:
    """Return whether every question of a step has an answer."""
    asked = [question.id for question in questions() if question.after == step.id]
    return bool(asked) and all(name in answers for name in asked)
