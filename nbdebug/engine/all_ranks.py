"""A diagnosis on every process of a distributed training: each examines its own, and the first one reports it all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace

from nbdebug.core.control import Control
from nbdebug.core.finding import Finding, Result
from nbdebug.report import Report
from nbdebug.sandbox.guard import Guard, close_for_sure
from nbdebug.setup import Setup
from nbdebug.setup.distributed.facts import facts_of
from nbdebug.setup.distributed.meeting import Meeting, meet

__all__ = ["Gathering", "gathering"]

PATIENCE = 60.0  # seconds that rank 0 waits for the others' reports, or twice as long as its own took


@dataclass(frozen=True)
class Gathering:
    """The part of this process in a diagnosis by many, or by itself alone."""

    meeting: Meeting | None

    @property
    def speaks(self) -> bool:
        """Whether this process shows its progress: the first one, or the only one."""
        return self.meeting is None or self.meeting.is_first

    def gathered(self, report: Report) -> Report:
        """Return the report; on the first process with what the others found besides, and who was not heard."""
        if self.meeting is None:
            return report
        try:
            if not self.meeting.is_first:
                self.meeting.say("report", report.to_dict())
                return report
            heard = self.meeting.hear("report", max(PATIENCE, 2 * report.seconds))
        except KeyboardInterrupt:
            notes = [*report.notes, "Interrupted while waiting for the other ranks."]
            return replace(report, notes=notes, stopped="interrupted")
        except (RuntimeError, OSError) as error:  # the store is gone with the process that held it
            return replace(report, notes=[*report.notes, f"The other ranks cannot be reached: {error}."])
        for rank in sorted(heard):
            report = _joined(report, Report.from_dict(heard[rank]), rank)
        return replace(report, notes=[*report.notes, *(f"{says}." for says in self.meeting.missing.values())])


@contextmanager
def gathering(setup: Setup, control: Control) -> Iterator[Gathering]:
    """Let the processes of a distributed training meet; one that ends with an error tells the first not to wait."""
    meeting = meet("diagnose")
    if meeting is None:
        yield Gathering(None)
        return
    try:
        _introduce(setup, meeting, control)
        yield Gathering(meeting)
    except BaseException as error:
        with suppress(RuntimeError, OSError):
            meeting.leave(error)
        raise


def _introduce(setup: Setup, meeting: Meeting, control: Control) -> None:
    """Say what this process holds and draws; unseeded, because seeds that are alike by mistake have to show."""
    guard = Guard(control)
    try:
        guard.hold_interrupts()
        guard.save_generators(*setup.live_parts())
        facts = facts_of(setup, meeting.rank)
        guard.is_closing = True
    finally:
        close_for_sure(guard)
    setup.meeting, setup.meeting_facts = meeting, facts
    if not meeting.is_first:
        meeting.say("facts", asdict(facts))


def _joined(report: Report, other: Report, rank: int) -> Report:
    """Add what another process found and this one did not."""
    known = {(finding.check, finding.where) for finding in report.findings}
    told = [replace(f, says=f"On rank {rank}: {f.says}") for f in other.findings if (f.check, f.where) not in known]
    alarms = [finding for finding in told if finding.is_alarm]  # worth knowing is what concerns all
    if not alarms:
        return report
    results = [_with(result, [f for f in alarms if f.check == result.check]) for result in report.results]
    own = [finding for finding in report.findings if finding.is_alarm]
    notes = [finding for finding in report.findings if not finding.is_alarm]
    return replace(report, findings=[*own, *alarms, *notes], results=results, places={**other.places, **report.places})


def _with(result: Result, more: list[Finding]) -> Result:
    return (
        replace(result, status="found", reason="", left_out="", findings=(*result.findings, *more)) if more else result
    )
