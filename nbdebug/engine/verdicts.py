"""Verdicts by intervention: what looks odd is a note where the training learns, and a bug where its fix rescues it.

A contradiction stands whatever the training does. Everything else is judged by how the user's own training comes out
(the gate), and where that fails, by what rescues it on a copy (the differential diagnosis).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from nbdebug.charts import Bars, Lines
from nbdebug.core.finding import Finding, Result
from nbdebug.core.journal import Event
from nbdebug.core.verification import Contest, Verification
from nbdebug.engine.differential import Differential, Run, take_apart
from nbdebug.engine.ranking import ranked
from nbdebug.engine.session import Session, not_tried
from nbdebug.errors import Cancelled, NbdebugError, OutOfTime
from nbdebug.evidence.learning_gate import LearningGate
from nbdebug.report.progress import progress_line
from nbdebug.sandbox import interrupts_held

__all__ = ["ruled_out", "says_learning", "settle"]

FAILS = "training-fails"
MOST_SHOWN = 12  # exchanges in a chart


def settle(session: Session, order: Sequence[str], *, shown: bool) -> bool:
    """Judge the alarms of a whole run by how the training comes out; return whether that could be told."""
    gate = session.known(LearningGate)
    if gate is None:
        missing = session.missing(LearningGate)
        if missing is not None and missing.left_out == "time":
            session.journal.note(f"Whether your training learns is {missing.reason}. What only looks odd is a suspect.")
        return False
    if gate.verdict == "unknown" and gate.measure != "held-out loss":
        return False  # nobody learns it: the data, the model and the loss are all suspects
    if gate.verdict != "fails":
        _calm(session, gate)
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
    if gate.measure == "held-out loss":
        return f"Your training learns: the held-out loss falls from {gate.chance:.3g} to {gate.patient_value:.3g}"
    return (
        f"Your training learns: {gate.measure} {gate.patient_value:.0%} on held-out samples after "
        f"{gate.patient_steps} steps (chance level {gate.chance:.0%})"
    )


def _taken_apart(session: Session, gate: LearningGate, order: Sequence[str], shown: bool) -> Differential | None:
    """Run the differential diagnosis under guard; None where it was stopped or the copies cannot be made."""
    findings = ranked(session.journal.findings, order)
    title = "finding the cause of the failure"
    started = time.perf_counter()
    try:
        line = progress_line(title, shown=shown, control=session.control)
        with interrupts_held(session.control), line as listen, _heard(session, listen):
            return session.experiment(
                "differential", title, lambda: take_apart(session.setup, gate, findings, session.control)
            )
    except OutOfTime:
        session.journal.note(f"Your training fails; finding the cause is {not_tried(session.control)}.")
    except (Cancelled, KeyboardInterrupt):
        if session.control.insisted.is_set():
            raise
    except NbdebugError as why:
        session.journal.note(f"The cause of the failure was not searched for: {why}")
    finally:
        session.control.reset()
        session.timings["differential"] = time.perf_counter() - started
    return None


def ruled_out(session: Session) -> list[tuple[str, float]]:
    """Return the exchanges that were tried and do not rescue the training, each with the skill it came to."""
    found = session.known(Differential)
    if found is None:
        return []
    vain = [run for run in found.runs if run.was_tried and not found.rescues(run)]
    return [(run.exchange.name, run.skill) for run in sorted(vain, key=lambda run: -run.skill)]


class _heard:
    """Pass the events of a session on to a listener inside the block."""

    def __init__(self, session: Session, listen: Callable[[Event], Any]) -> None:
        self.session, self.listen = session, listen

    def __enter__(self) -> None:
        self.stop = self.session.journal.subscribe(self.listen)

    def __exit__(self, *_: object) -> None:
        self.stop()


def _write(session: Session, gate: LearningGate, found: Differential) -> None:
    """Confirm the cause, refute what does not rescue the training, and say what was tried."""
    results = {result.check: result for result in session.journal.results}
    alarming = [check for check, result in results.items() if any(f.is_alarm for f in result.findings)]
    named = found.cause.exchange.check if found.cause is not None else ""
    for check in alarming:
        if check != named:
            kept = tuple(_judged(f, found) for f in results[check].findings)
            session.journal.write(results[check].with_findings(kept))
    if named:
        odd = [c for c in alarming if c != named and not any(f.is_contradiction for f in results[c].findings)]
        findings = _caused(session, gate, found, results.get(named), odd)
        if _has_standing(results.values(), found):  # a contradiction that could not be fixed on a copy comes first
            findings = [f if f.is_contradiction else replace(f, severity="suspect", cures=None) for f in findings]
        session.journal.write(Result(named, "found", tuple(findings)))
    elif FAILS in results:
        shown = [replace(f, exhibit=_exchanges(found)) for f in results[FAILS].findings]
        session.journal.write(results[FAILS].with_findings(tuple(shown)))
    session.journal.note(_summary(found))


def _exchanges(found: Differential) -> Bars:
    """Return the skill that each exchange came to, the best first."""
    tried = sorted((run for run in found.runs if run.was_tried), key=lambda run: -run.skill)[:MOST_SHOWN]
    names = ("as it is", *(run.exchange.name for run in tried))
    skills = (found.own, *(max(run.skill, 0.0) for run in tried))
    return Bars(names, skills, title="Skill with one ingredient exchanged (0: constant prediction, 1: perfect)")


def _caused(
    session: Session, gate: LearningGate, found: Differential, known: Result | None, odd: Sequence[str]
) -> list[Finding]:
    assert found.cause is not None
    old = [f for f in known.findings if f.is_alarm] if known is not None else []
    if found.cause.exchange.is_hypothesis and old:
        return [_confirmed(finding, gate, found, odd) for finding in old]
    return [replace(_named(gate, found, odd), check=found.cause.exchange.check, session=session)]


def _has_standing(results: Iterable[Result], found: Differential) -> bool:
    """Whether a contradiction is left whose fix was not tried on a copy."""
    bugs = {f.check for result in results for f in result.findings if f.severity == "bug" and f.is_contradiction}
    return any(not found.refutes(check) and not found.confirms(check) for check in bugs)


def _judged(finding: Finding, found: Differential) -> Finding:
    """Return an alarm that is not the cause: a refuted statistic is a note, an untried one a suspect."""
    if finding.is_alarm and finding.is_contradiction:
        return replace(finding, explains=tuple(dict.fromkeys((*finding.explains, FAILS))))
    if not finding.is_alarm:
        return finding
    if found.refutes(finding.check) and found.cause is not None:
        return replace(finding, severity="note", told_apart="Its fix on a copy does not rescue the training.")
    return replace(finding, severity="suspect")


def _confirmed(finding: Finding, gate: LearningGate, found: Differential, others: Sequence[str]) -> Finding:
    assert found.cause is not None
    proven = found.cause.exchange.remedies
    remedy = next((r for r in finding.remedies if r in proven), proven[0])
    proof = Verification(remedy, "verified", _compared(gate, found), _contests(gate, found), _curves(gate, found))
    return replace(
        finding,
        severity="bug",
        verifications=[proof],
        explains=tuple(dict.fromkeys((*finding.explains, FAILS, *_symptoms(found, others)))),
        evidence={**finding.evidence, **_numbers(gate, found)},
        told_apart=f"Fixed alone on a copy, the training is rescued: {_compared(gate, found)}",
        cures=(FAILS,),
    )


def _named(gate: LearningGate, found: Differential, others: Sequence[str]) -> Finding:
    """Return the finding of a cause that no check had seen."""
    assert found.cause is not None
    exchange = found.cause.exchange
    proof = Verification(
        exchange.remedies[-1], "verified", _compared(gate, found), _contests(gate, found), _curves(gate, found)
    )
    return Finding(
        f"{exchange.cause}: with {exchange.name}, {_compared(gate, found)}",
        where=exchange.where,
        severity="bug",
        evidence={**_numbers(gate, found), "threshold": found.needed, "source": "comparison within the run"},
        remedies=exchange.remedies,
        explains=tuple(dict.fromkeys((FAILS, *_symptoms(found, others)))),
        exhibit=_curves(gate, found),
        verifications=[proof],
        cures=(FAILS,),
    )


def _symptoms(found: Differential, others: Sequence[str]) -> list[str]:
    """Return the other alarms whose own fix does not rescue the training."""
    return [check for check in others if not found.confirms(check)]


def _compared(gate: LearningGate, found: Differential) -> str:
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


def _numbers(gate: LearningGate, found: Differential) -> dict[str, Any]:
    assert found.cause is not None
    return {
        f"{gate.measure} as it is": gate.patient_value,
        f"{gate.measure} with {found.cause.exchange.name}": found.cause.value,
        "skill as it is": found.own,
        "skill with the exchange": found.cause.skill,
        "achievable skill": gate.reference,
    }


def _contests(gate: LearningGate, found: Differential) -> tuple[Contest, ...]:
    runs: list[Run] = [run for run in (found.cause, found.again) if run is not None]
    return tuple(
        Contest(seed, gate.measure, gate.patient_value, run.value, better=True, clean=True)
        for seed, run in enumerate(runs)
    )


def _curves(gate: LearningGate, found: Differential) -> Lines:
    assert found.cause is not None
    lines = [("as it is", gate.losses), (f"with {found.cause.exchange.name}", found.cause.losses)]
    return Lines.of_losses(lines, "Training loss")


def _summary(found: Differential) -> str:
    """Say in one note what was tried and what came of it."""
    tried = [run for run in found.runs if run.was_tried]
    late = sum(run.left_out.startswith("not tried") for run in found.runs)
    listed = "; ".join(f"{run.exchange.name} {run.skill:.2f}" for run in sorted(tried, key=lambda r: -r.skill)[:6])
    text = f"Your training fails (skill {found.own:.2f}). {len(tried)} exchanges were tried on copies: {listed}."
    if late:
        text += f" {late} were not tried for want of time."
    if found.cause is None:
        offered = ", ".join(run.exchange.name for run in found.repairs)
        text += " The cause was not found." + (f" It learns with {offered}." if offered else "")
    return text
