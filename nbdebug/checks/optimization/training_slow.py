"""The user's own training learns, and takes far longer than it has to."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.checks.optimization.training_fails import curves
from nbdebug.core.finding import Finding
from nbdebug.core.registry import check
from nbdebug.evidence.learning_gate import LearningGate

__all__ = ["training_slow"]


@check(basis="statistic")
def training_slow(gate: LearningGate) -> Iterator[Finding]:
    """Your training learns, but only after far more steps than a reference.

    nbdebug trains a copy in your own way and measures it on held-out batches. It is slow if it is below half of what is
    achievable after the first steps, and above it after up to three times as many.

    Why it matters: a step size that is too small, too few steps or an optimizer that does not fit look like a model
    that cannot learn.

    What to try: a learning rate three to ten times as high, more epochs, or Adam in place of plain SGD.
    """
    if gate.verdict != "slow":
        return
    says = (
        f"Your training is slow: the {gate.measure} on held-out samples is {gate.value:.3g} after {gate.steps} steps "
        f"and {gate.patient_value:.3g} after {gate.patient_steps}."
    )
    if gate.depends_on_start:
        says = (
            f"Your training learns from other initial weights only: after {gate.patient_steps} steps the "
            f"{gate.measure} on held-out samples is {gate.patient_value:.3g} (chance level {gate.chance:.3g})."
        )
    yield Finding(
        says,
        where="optimizer",
        severity="note",
        evidence={
            f"{gate.measure} after {gate.steps} steps": gate.value,
            f"{gate.measure} after {gate.patient_steps} steps": gate.patient_value,
            "achieved by": gate.reference_name,
            "threshold": "half of the achievable skill",
            "source": "comparison within the run",
        },
        exhibit=curves(gate),
    )
