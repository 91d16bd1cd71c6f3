"""What a differential diagnosis shows: sentences, numbers and curves of the cause, and of everything that was tried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbdebug.charts import Bars, Lines, Panels
from nbdebug.core.text import listed
from nbdebug.core.verification import Contest
from nbdebug.engine.differential import Differential, Run
from nbdebug.engine.differential.race import own_skill
from nbdebug.evidence.learning_gate import LearningGate

__all__ = ["compared", "contests", "contests_of", "courses", "curves", "numbers", "skills", "summary"]

MOST_SHOWN = 12  # exchanges in a chart
MOST_NAMED = 3  # in a sentence
MOST_PANELS = 8
SMALL = 0.03  # of skill: what is ahead in the race


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
    if run.measure == "held-out loss":
        reached, own = f"the held-out loss reaches {run.value:.3g}", f"{gate.patient_value:.3g}"
    else:
        reached = f"the {run.measure} on held-out samples reaches {run.value:.0%}"
        own = f"{gate.patient_value:.0%}, chance level {gate.chance:.0%}"
        own = own if run.measure == gate.measure else "no metric fits this loss"
    own = own if gate.is_finite else "the loss is not finite"
    return f"{reached} after {run.steps} steps (as it is: {own})."


def numbers(gate: LearningGate, found: Differential) -> dict[str, Any]:
    """Return metric and skill with and without the exchange."""
    assert found.cause is not None
    return {
        f"{gate.measure} as it is": gate.patient_value,
        f"{found.cause.measure} with {found.cause.exchange.name}": found.cause.value,
        "skill as it is": found.own,
        "skill with the exchange": found.cause.skill,
        "achievable skill": gate.reference,
    }


def contests(gate: LearningGate, found: Differential) -> tuple[Contest, ...]:
    """Return the comparison from each random start."""
    return contests_of(gate, [run for run in (found.cause, found.again) if run is not None])


def contests_of(gate: LearningGate, runs: Sequence[Run]) -> tuple[Contest, ...]:
    """Return the comparison of each of these runs with the user's own training."""
    own = own_skill(gate)
    return tuple(
        Contest(seed, gate.measure, gate.patient_value, run.value, better=True, clean=True)
        if run.measure == gate.measure
        else Contest(seed, "skill", own, run.skill, better=True, clean=True)
        for seed, run in enumerate(runs)
    )


def curves(gate: LearningGate, run: Run, again: Run | None = None) -> Lines:
    """Return the loss curves with and without the exchange."""
    name = f"with {run.exchange.name}"
    again_lines = [(f"{name}, another seed", again.losses)] if again is not None and again.losses else []
    lines = [("as it is", gate.losses), (name, run.losses), *again_lines]
    return Lines.of_losses(lines, "Training loss" + ", two seeds" * len(again_lines), repeats=len(again_lines))


def courses(gate: LearningGate, found: Differential) -> Panels | None:
    """Return how each exchange comes out over its training, a panel each; None where there is nothing to compare."""
    tried = [run for run in found.runs if run.was_tried and len(run.scores) > 1 and _is_shown(run, gate)]
    if not tried or not gate.scores:
        return None
    tried.sort(key=lambda run: (run is not found.cause, -run.skill))
    shown = tried[: MOST_PANELS - 1]
    own = ("as it is", *_xy(gate.scores, gate))
    series = (own, *((run.exchange.name, *_xy(run.scores, gate)) for run in shown))
    remarks = ("your set-up", *(_remark(run, found) for run in shown))
    marked = 1 if shown[0] is found.cause else None
    span = (0.0, 1.0) if "accuracy" in gate.measure else None
    return Panels(series, "", y_label=gate.measure, remarks=remarks, marked=marked, span=span)


def _is_shown(run: Run, gate: LearningGate) -> bool:
    """Whether a run is measured by what the user's training is measured by: another loss has other values."""
    return gate.measure != "held-out loss" or run.skill > -1.0


def _remark(run: Run, found: Differential) -> str:
    if found.rescues(run):
        return "rescues it"
    return "small gain" if run.skill > found.own + SMALL else "no change"


def _xy(scores: Sequence[tuple[int, float, float]], gate: LearningGate) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the steps and what the gate measures by."""
    by_loss = gate.measure == "held-out loss"
    return tuple(float(step) for step, _, _ in scores), tuple(loss if by_loss else fit for _, fit, loss in scores)


def summary(found: Differential) -> str:
    """Say in one note what was tried and what came of it."""
    tried = sorted((run for run in found.runs if run.was_tried), key=lambda run: -run.skill)
    ahead = [run for run in tried if run.skill > found.own][:MOST_NAMED]
    late = sum(run.left_out.startswith("not tried") for run in found.runs)
    text = f"Your training fails (skill {found.own:.2f}). {len(tried)} exchanges were tried on copies"
    text += f"; the best: {listed([f'{run.exchange.name} ({run.skill:.2f})' for run in ahead])}." if ahead else "."
    if late:
        text += f" {late} were not tried for want of time."
    if found.cause is not None:
        return f"{text} The cause: {found.cause.exchange.check}."
    offered = [run.exchange.name for run in found.repairs[:MOST_NAMED]]
    return f"{text} The cause was not found." + (f" It learns with {listed(offered)}." if offered else "")
