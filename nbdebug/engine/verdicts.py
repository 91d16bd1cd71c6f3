"""Verdicts by intervention: what looks odd is a note where the training learns, and a bug where its fix rescues it.

A contradiction stands whatever the training does. Everything else is judged by how the user's own training comes out
(the gate), and where that fails, by what rescues it on a copy (the differential diagnosis).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from nbdebug.charts import Panels
from nbdebug.core.finding import Finding, Result
from nbdebug.core.verification import Verification
from nbdebug.engine.differential import NO_HINDRANCE, OUTCOMES, Differential, take_apart
from nbdebug.engine.differential.evidence import compared, contests, courses, curves, numbers, skills, summary
from nbdebug.engine.ranking import ranked
from nbdebug.engine.searching import searched
from nbdebug.engine.session import Session
from nbdebug.engine.slow_training import explain_delay, is_late
from nbdebug.evidence.learning_gate import LearningGate
from nbdebug.report.progress import Shown

__all__ = ["exchanged", "ruled_out", "says_learning", "settle"]

FAILS = "training-fails"


def settle(session: Session, order: Sequence[str], *, shown: Shown) -> bool:
    """Judge the alarms of a whole run by how the training comes out; return whether that could be told."""
    gate = session.known(LearningGate)
    if gate is None:
        missing = session.missing(LearningGate)
        if missing is not None and missing.left_out == "time":
            session.journal.note(f"Whether your training learns is {missing.reason}. What only looks odd is a suspect.")
        return False
    if gate.verdict == "unknown" and gate.measure != "held-out loss":
        return False  # no program learns it: the data, the model and the loss are all suspects
    if gate.verdict != "fails":
        odd = ranked(session.journal.findings, order)
        if gate.depends_on_start:
            session.journal.note("Your training learns from other initial weights only: what looks odd is a suspect.")
        else:
            _calm(session, gate)
        if is_late(gate, odd):
            explain_delay(session, gate, odd, shown)
        return True
    found = _taken_apart(session, gate, order, shown)
    if found is not None:
        session.keep(found)
        _write(session, gate, found)
    return True


def _calm(session: Session, gate: LearningGate) -> None:
    """Make every statistic that looks odd a note, because the training learns all the same."""
    calmed = 0
    for result in session.journal.results:
        odd = [f for f in result.findings if f.is_alarm and not f.is_contradiction]
        if odd:
            calmed += 1
            kept = (replace(f, severity="note") if f in odd else f for f in result.findings)
            session.journal.write(result.with_findings(tuple(kept)))
    if calmed:
        session.journal.note(f"{says_learning(gate)}, so what only looks odd is a note ({calmed} checks).")


def says_learning(gate: LearningGate) -> str:
    """Return what the gate saw of a training that does not fail, without a full stop."""
    if gate.verdict == "unknown":
        return "No metric fits your outputs and targets, and no recipe lowers the held-out loss further than yours"
    if gate.measure == "held-out loss" and math.isnan(gate.patient_value):
        return "Your training learns: the loss that your training step returns falls"
    if gate.measure == "held-out loss":
        return f"Your training learns: the held-out loss falls from {gate.chance:.3g} to {gate.patient_value:.3g}"
    return (
        f"Your training learns: {gate.measure} {gate.patient_value:.0%} on held-out samples after "
        f"{gate.patient_steps} steps (chance level {gate.chance:.0%})"
    )


def _taken_apart(session: Session, gate: LearningGate, order: Sequence[str], shown: Shown) -> Differential | None:
    """Run the differential diagnosis under guard; None where it was stopped or the copies cannot be made."""
    findings = ranked(session.journal.findings, order)
    return searched(
        session,
        ("differential", "finding the cause of the failure", "Your training fails; finding the cause is"),
        lambda: take_apart(session.setup, gate, findings, session.control),
        shown,
    )


def ruled_out(session: Session) -> list[tuple[str, float]]:
    """Return the exchanges that were tried and do not rescue the training, each with the skill it came to."""
    found = session.known(Differential)
    if found is None:
        return []
    vain = [run for run in found.runs if run.was_tried and not found.rescues(run)]
    return [(run.exchange.name, run.skill) for run in sorted(vain, key=lambda run: -run.skill)]


def exchanged(session: Session) -> Panels | None:
    """Return the courses of the trainings with one ingredient exchanged; None where none was taken apart."""
    found, gate = session.known(Differential), session.known(LearningGate)
    return courses(gate, found) if found is not None and gate is not None else None


def _write(session: Session, gate: LearningGate, found: Differential) -> None:
    """Confirm the cause, refute what does not rescue the training, and say what was tried."""
    results = {result.check: result for result in session.journal.results}
    alarming = [check for check, result in results.items() if any(f.is_alarm for f in result.findings)]
    named = found.cause.exchange.check if found.cause is not None else ""
    for check in alarming:
        if check != named:
            kept = tuple(judged(f, found) for f in results[check].findings)
            session.journal.write(results[check].with_findings(kept))
    if named:
        odd = [c for c in alarming if c != named and not any(f.is_contradiction for f in results[c].findings)]
        findings = _caused(session, gate, found, results.get(named), odd)
        if _has_standing(results.values(), found):  # a contradiction that could not be fixed on a copy comes first
            findings = [f if f.is_contradiction else replace(f, severity="suspect", cures=None) for f in findings]
        session.journal.write(Result(named, "found", tuple(findings)))
    elif FAILS in results:
        shown = [replace(f, exhibit=skills(found), explains=OUTCOMES[1:]) for f in results[FAILS].findings]
        session.journal.write(results[FAILS].with_findings(tuple(shown)))
    session.journal.note(summary(found))


def _caused(
    session: Session, gate: LearningGate, found: Differential, known: Result | None, odd: Sequence[str]
) -> list[Finding]:
    assert found.cause is not None
    old = [f for f in known.findings if f.is_alarm] if known is not None and known.check != FAILS else []
    if old:
        return [_confirmed(finding, gate, found, odd) for finding in old]
    return [replace(_named(gate, found, odd), check=found.cause.exchange.check, session=session)]


def _has_standing(results: Iterable[Result], found: Differential) -> bool:
    """Whether a contradiction is left whose fix was not tried on a copy."""
    bugs = {f.check for result in results for f in result.findings if f.severity == "bug" and f.is_contradiction}
    return any(not found.refutes(check) and not found.confirms(check) for check in bugs - NO_HINDRANCE)


def judged(finding: Finding, found: Differential) -> Finding:
    """Return an alarm that is not the cause: a refuted statistic is a note, an untried one a suspect.

    A contradiction accounts for how the training comes out, unless its fix does not help and another one does, or it is
    of a kind that keeps no training from learning.
    """
    if not finding.is_alarm:
        return finding
    refuted = found.cause is not None and found.refutes(finding.check)
    if finding.is_contradiction:
        outcomes = () if refuted or finding.check in NO_HINDRANCE else OUTCOMES
        return replace(finding, explains=tuple(dict.fromkeys((*finding.explains, *outcomes))))
    if refuted:
        return replace(finding, severity="note", told_apart="Its fix on a copy does not rescue the training.")
    if found.cause is not None and (found.confirms(finding.check) or found.is_part(finding.check)):
        told = "its fix rescues the training as well" if found.confirms(finding.check) else "its fix is part of it"
        return replace(finding, severity="suspect", told_apart=f"One cause with {found.cause.exchange.check}: {told}.")
    return replace(finding, severity="suspect")


def _confirmed(finding: Finding, gate: LearningGate, found: Differential, others: Sequence[str]) -> Finding:
    assert found.cause is not None
    proven = found.cause.exchange.remedies
    remedy = next((r for r in finding.remedies if r in proven), proven[0])
    proof = Verification(
        remedy, "verified", compared(gate, found), contests(gate, found), curves(gate, found.cause, found.again)
    )
    return replace(
        finding,
        severity="bug",
        remedies=(*proven, *(r for r in finding.remedies if r not in proven)),
        verifications=[proof],
        explains=_explained(finding.explains, others),
        evidence={**finding.evidence, **numbers(gate, found)},
        told_apart=f"With {found.cause.exchange.name} alone, on a copy, the training is rescued: "
        + compared(gate, found),
        cures=(FAILS,),
    )


def _named(gate: LearningGate, found: Differential, others: Sequence[str]) -> Finding:
    """Return the finding of a cause that no check had seen."""
    assert found.cause is not None
    exchange = found.cause.exchange
    proof = Verification(
        exchange.remedies[-1],
        "verified",
        compared(gate, found),
        contests(gate, found),
        curves(gate, found.cause, found.again),
    )
    return Finding(
        f"{exchange.cause}: with {exchange.name}, {compared(gate, found)}",
        where=exchange.where,
        severity="bug",
        evidence={**numbers(gate, found), "threshold": found.needed, "source": "comparison within the run"},
        remedies=exchange.remedies,
        explains=_explained((), others),
        exhibit=curves(gate, found.cause, found.again),
        verifications=[proof],
        cures=(FAILS,),
    )


def _explained(known: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Return what a named cause accounts for: every other alarm on a statistic, whether or not its fix helps too."""
    return tuple(dict.fromkeys((*known, *OUTCOMES, *others)))
