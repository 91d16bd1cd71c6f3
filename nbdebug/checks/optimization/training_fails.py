"""The user's own training does not learn what can be learned from the same data."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nbdebug.charts import Lines
from nbdebug.core.finding import Finding
from nbdebug.core.registry import check
from nbdebug.evidence.learning_gate import LearningGate

__all__ = ["training_fails"]


@check
def training_fails(gate: LearningGate) -> Iterator[Finding]:
    """Your training does not learn what can be learned from the same data.

    nbdebug trains a copy with your own step, optimizer, batch order and loss, measures it on held-out batches, and
    compares it with scikit-learn and with the same network under a textbook recipe. It fails if it is below half of
    what they reach, also after three times the steps and with another random start.

    Why it matters: a statistic that looks odd in a training that learns does no harm. A training that fails has a
    cause, and nbdebug exchanges one ingredient after the other on copies to find it.

    What to try: start from the recipe that learns and change one ingredient at a time to your own. The ingredient that
    breaks it is the cause.
    """
    if gate.verdict != "fails":
        return
    yield Finding(
        says_failure(gate),
        where="model",
        severity="suspect",
        evidence={
            gate.measure: gate.patient_value,
            "chance level": gate.chance,
            "steps": gate.patient_steps,
            "skill": gate.patient_skill,
            "achievable skill": gate.reference,
            "achieved by": gate.reference_name,
            "threshold": "half of the achievable skill",
            "source": "comparison within the run",
        },
        exhibit=curves(gate),
    )


def says_failure(gate: LearningGate) -> str:
    """Return the sentence that says how far the training came and what is achievable."""
    if not gate.is_finite:
        return f"Your training fails: the loss is not finite after {gate.steps} steps."
    if gate.measure == "held-out loss":
        return (
            f"Your training fails: after {gate.patient_steps} steps the held-out loss is {gate.patient_value:.3g} "
            f"(initially {gate.chance:.3g}); {gate.reference_name} reaches {gate.reference:.3g}."
        )
    reached = gate.chance + gate.reference * (1 - gate.chance)
    return (
        f"Your training fails: after {gate.patient_steps} steps the {gate.measure} on held-out samples is "
        f"{gate.patient_value:.0%} (chance level {gate.chance:.0%}); {gate.reference_name} reaches {reached:.0%}."
    )


def curves(gate: LearningGate) -> Lines | None:
    """Return both loss curves, or that of the user's own training alone."""
    lines = [(name, values) for name, values in (("your training", gate.losses), ("reference", gate.reference_losses))]
    kept = [(name, [v for v in values if math.isfinite(v)]) for name, values in lines if values]
    return Lines.of_losses([line for line in kept if line[1]], "Training loss") if kept else None
