"""What a differential diagnosis shows: sentences, numbers and curves of the cause, and of everything that was tried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbdebug.charts import Bars, Lines
from nbdebug.core.verification import Contest
from nbdebug.engine.differential import Differential, Run
from nbdebug.evidence.learning_gate import LearningGate

__all__ = ["compared", "contests", "contests_of", "curves", "numbers", "skills", "summary"]

MOST_SHOWN = 12  # exchanges in a chart
MOST_NAMED = 3  # in a sentence


def skills(found: Differential) -> Bars:
    """Return the skill that each exchange came to, the best first."""
    tried = sorted((run for run in found.runs if run.was_tried), key=lambda run: -run.skill)[:MOST_SHOWN]
    names = ("as it is", *(run.exchange.name for run in tried))
    skills = (found.own, *(max(run.skill, 0.0) for run in tried))
    return Bars(names, skills, title="Skill with one ingredient exchanged (0: constant prediction, 1: perfect)")


def compared(gate: LearningGate, found: Differential) -> str:
    """Return what the cause's exchange comes to, against the user's own training."""
    assert found.cause is not None
    run = found.cause
    if gate.measure == "held-out loss" or not gate.is_finite:
        return (
            f"the held-out loss reaches {run.value:.3g} after {run.steps} steps (as it is: {gate.patient_value:.3g})."
        )
    return (
        f"the {gate.measure} on held-out samples reaches {run.value:.0%} after {run.steps} steps "
        f"(as it is: {gate.patient_value:.0%}, chance level {gate.chance:.0%})."
    )


def numbers(gate: LearningGate, found: Differential) -> dict[str, Any]:
    """Return metric and skill with and without the exchange."""
    assert found.cause is not None
    return {
        f"{gate.measure} as it is": gate.patient_value,
        f"{gate.measure} with {found.cause.exchange.name}": found.cause.value,
        "skill as it is": found.own,
        "skill with the exchange": found.cause.skill,
        "achievable skill": gate.reference,
    }


def contests(gate: LearningGate, found: Differential) -> tuple[Contest, ...]:
    """Return the comparison from each random start."""
    return contests_of(gate, [run for run in (found.cause, found.again) if run is not None])


def contests_of(gate: LearningGate, runs: Sequence[Run]) -> tuple[Contest, ...]:
    """Return the comparison of each of these runs with the user's own training."""
    return tuple(
        Contest(seed, gate.measure, gate.patient_value, run.value, better=True, clean=True)
        for seed, run in enumerate(runs)
    )


def curves(gate: LearningGate, run: Run) -> Lines:
    """Return the loss curves with and without the exchange."""
    lines = [("as it is", gate.losses), (f"with {run.exchange.name}", run.losses)]
    return Lines.of_losses(lines, "Training loss")


def summary(found: Differential) -> str:
    """Say in one note what was tried and what came of it."""
    tried = sorted((run for run in found.runs if run.was_tried), key=lambda run: -run.skill)
    ahead = [run for run in tried if run.skill > found.own][:MOST_NAMED]
    late = sum(run.left_out.startswith("not tried") for run in found.runs)
    text = f"Your training fails (skill {found.own:.2f}). {len(tried)} exchanges were tried on copies"
    text += f"; the best: {_listed([f'{run.exchange.name} ({run.skill:.2f})' for run in ahead])}." if ahead else "."
    if late:
        text += f" {late} were not tried for want of time."
    if found.cause is not None:
        return f"{text} The cause: {found.cause.exchange.check}."
    offered = [run.exchange.name for run in found.repairs[:MOST_NAMED]]
    return f"{text} The cause was not found." + (f" It learns with {_listed(offered)}." if offered else "")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else "".join(names)
