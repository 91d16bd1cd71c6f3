"""Say why a training is slow: what is far off its scale is a suspect, anything else is named in the note."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from nbdebug.core.finding import Finding, Result
from nbdebug.core.verification import Verification
from nbdebug.engine.differential.delay import AT_THE_START, Delay, find_delay
from nbdebug.engine.differential.evidence import contests_of, curves
from nbdebug.engine.searching import searched
from nbdebug.engine.session import Session
from nbdebug.evidence.learning_gate import STEPS, LearningGate
from nbdebug.report.progress import Shown

__all__ = ["explain_delay", "is_late"]

SLOW = "training-slow"


def is_late(gate: LearningGate, findings: Sequence[Finding]) -> bool:
    """Whether a training is slow, or takes most of the first steps to learn with a start that is off scale."""
    if gate.verdict != "learns" or 2 * gate.steps <= STEPS:
        return gate.verdict == "slow"
    return any(finding.is_alarm and finding.check in AT_THE_START for finding in findings)


def explain_delay(session: Session, gate: LearningGate, findings: Sequence[Finding], shown: Shown) -> None:
    """Search for what makes the training slow, and write it into the journal."""
    found = searched(
        session,
        ("delay", "finding what makes the training slow", "Your training is slow; finding the cause is"),
        lambda: find_delay(session.setup, gate, findings, session.control),
        shown,
    )
    if found is None:
        return
    results = {result.check: result for result in session.journal.results}
    if SLOW in results:
        told = [_told(finding, gate, found) for finding in results[SLOW].findings]
        session.journal.write(results[SLOW].with_findings(tuple(told)))
    if found.is_fault:
        known = results.get(found.exchange.check)
        old = known.findings if known is not None else ()
        new = [_raised(f, gate, found) for f in old] or [_named(session, gate, found)]
        session.journal.write(Result(found.exchange.check, "found", tuple(new)))
    session.journal.note(f"Your training is slow; {_compared(gate, found)}")


def _compared(gate: LearningGate, found: Delay) -> str:
    run = found.runs[0]
    return (
        f"with {found.exchange.name}, the {gate.measure} on held-out samples reaches {run.value:.0%} after "
        f"{found.steps} steps (as it is: {gate.patient_value:.0%} after {gate.patient_steps})."
    )


def _numbers(gate: LearningGate, found: Delay) -> dict[str, Any]:
    return {
        f"{gate.measure} as it is": gate.patient_value,
        "steps as it is": gate.patient_steps,
        f"{gate.measure} with {found.exchange.name}": [run.value for run in found.runs],
        "steps with the exchange": found.steps,
        "threshold": "as far in a third of the steps, from two random starts",
        "source": "comparison within the run",
    }


def _proof(gate: LearningGate, found: Delay) -> Verification:
    remedy = found.exchange.remedies[-1]
    shown = curves(gate, found.runs[0])
    return Verification(remedy, "verified", _compared(gate, found), contests_of(gate, found.runs), shown)


def _told(finding: Finding, gate: LearningGate, found: Delay) -> Finding:
    """Return the note on the slow training with what speeds it up."""
    proof = _proof(gate, found)
    return replace(
        finding,
        says=f"{finding.says} With {found.exchange.name}, it comes as far in {found.steps}.",
        evidence={**finding.evidence, **_numbers(gate, found)},
        remedies=found.exchange.remedies,
        verifications=[proof],
        exhibit=proof.exhibit,
    )


def _raised(finding: Finding, gate: LearningGate, found: Delay) -> Finding:
    """Return what looked odd as a suspect: with its fix, a third of the steps is enough."""
    proven = found.exchange.remedies
    return replace(
        finding,
        severity="suspect",
        remedies=(*proven, *(r for r in finding.remedies if r not in proven)),
        verifications=[_proof(gate, found)],
        evidence={**finding.evidence, **_numbers(gate, found)},
        explains=tuple(dict.fromkeys((*finding.explains, SLOW))),
        told_apart=f"It slows the training down: {_compared(gate, found)}",
        cures=(SLOW,),
    )


def _named(session: Session, gate: LearningGate, found: Delay) -> Finding:
    exchange = found.exchange
    return Finding(
        f"{exchange.cause}, which slows the training down: {_compared(gate, found)}",
        where=exchange.where,
        severity="suspect",
        check=exchange.check,
        session=session,
        evidence=_numbers(gate, found),
        remedies=exchange.remedies,
        explains=(SLOW,),
        exhibit=curves(gate, found.runs[0]),
        verifications=[_proof(gate, found)],
        cures=(SLOW,),
    )
