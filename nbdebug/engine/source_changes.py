"""Fixes in the user's own words: each fix as a diff of their code, run on a copy where that is safe."""

from __future__ import annotations

from dataclasses import replace

from nbdebug.core.finding import Finding
from nbdebug.core.remedy import Remedy
from nbdebug.engine.root_cause.planning import seconds_for
from nbdebug.engine.session import Session
from nbdebug.errors import Cancelled, NbdebugError, OutOfTime
from nbdebug.fixes.source import Change, change_for, with_diffs
from nbdebug.fixes.source.running import with_source
from nbdebug.sandbox import interrupts_held

__all__ = ["write_diffs"]

MOST_RUNS = 4  # changes of one report that are run
MOST_SECONDS = 5.0  # that the experiments behind a check may have taken, to be made again


def write_diffs(session: Session) -> None:
    """Write into every finding of a session its fixes as diffs; those of alarms are run on copies.

    A change after which the check still raises the finding is taken back.
    """
    runs, may_run = 0, session.journal.stopped == "" and not session.control.quick
    for result in session.journal.results:
        findings = []
        for finding in result.findings:
            written = with_diffs(session.setup, finding)
            if written.is_alarm and runs < MOST_RUNS and may_run:
                written, ran = _tried(session, written)
                runs += ran
            findings.append(written)
        if tuple(f.remedies for f in findings) != tuple(f.remedies for f in result.findings) or any(
            remedy.diff for f in findings for remedy in f.remedies
        ):
            session.journal.write(result.with_findings(tuple(findings)))


def _tried(session: Session, finding: Finding) -> tuple[Finding, int]:
    """Run the first change of a finding, where it is one of a function and the check is cheap enough."""
    for number, remedy in enumerate(finding.remedies):
        change = change_for(session.setup, finding.where, remedy) if remedy.diff and not remedy.diff_ran else None
        if change is None or not change[0] or seconds_for(session, (finding.check,)) > MOST_SECONDS:
            continue
        helped = _helps(session, finding, change)
        if helped is None:
            continue
        new = replace(remedy, diff_ran=True) if helped else replace(remedy, diff="")
        return replace(finding, remedies=_exchanged(finding.remedies, number, new)), 1
    return finding, 0


def _exchanged(remedies: tuple[Remedy, ...], number: int, new: Remedy) -> tuple[Remedy, ...]:
    return (*remedies[:number], new, *remedies[number + 1 :])


def _helps(session: Session, finding: Finding, change: Change) -> bool | None:
    """Whether the check raises nothing at this place any more with the changed source; None where it cannot be run."""
    try:
        with interrupts_held(session.control):
            setup = with_source(session.setup, *change)
            other = Session(
                setup,
                control=session.control.shared(),
                thresholds=session.thresholds,
                known=session.registry,
                seed=session.seed,
            )
            result = other.run_check(finding.check)
    except (OutOfTime, Cancelled, NbdebugError, KeyboardInterrupt):
        if session.control.insisted.is_set():
            raise
        return None
    finally:
        session.control.reset()
    if result.status in ("crashed", "skipped"):
        return None
    return not any(found.is_alarm and found.where == finding.where for found in result.findings)
