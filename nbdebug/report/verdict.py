"""One sentence on how a report stands: the most likely cause, or what passed, and how much of the run that covers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbdebug.core.text import clean_text, plural, shortened

if TYPE_CHECKING:
    from nbdebug.report.report import Report

__all__ = ["Tally", "extent", "part_line", "tally", "verdict"]

MAX_NAMES = 3  # of checks that crashed


@dataclass(frozen=True)
class Tally:
    """How many checks of a run passed, found something, do not apply, crashed, or have not run."""

    found: int  # a problem or a note
    passed: int
    not_applicable: int
    crashed: tuple[str, ...]
    not_run: int
    stopped: bool

    @property
    def done(self) -> int:
        """The number of checks that have run or do not apply."""
        return self.found + self.passed + self.not_applicable + len(self.crashed)

    @property
    def total(self) -> int:
        """The number of all checks of the run."""
        return self.done + self.not_run

    def __str__(self) -> str:
        """Return the counts that say what the absence of findings is based on."""
        names = ", ".join(clean_text(check) for check in self.crashed[:MAX_NAMES])
        more = f", and {len(self.crashed) - MAX_NAMES} more" if len(self.crashed) > MAX_NAMES else ""
        counts = {
            "passed": self.passed,
            "not applicable": self.not_applicable,
            f"crashed ({names}{more})": len(self.crashed),
        }
        parts = [(number, says) for says, number in counts.items() if number]
        return ", ".join(f"{number if i else plural(number, 'check')} {says}" for i, (number, says) in enumerate(parts))


def tally(report: Report) -> Tally:
    """Count what became of the checks of a report."""
    results = report.results
    undone = sum(result.is_undone for result in results)
    return Tally(
        found=sum(result.status == "found" for result in results),
        passed=sum(result.status == "clean" for result in results),
        not_applicable=sum(result.status == "skipped" for result in results) - undone,
        crashed=tuple(result.check for result in results if result.status == "crashed"),
        not_run=undone + len(report.not_run),
        stopped=report.stopped in ("interrupted", "cancelled") or any(result.was_stopped for result in results),
    )


def verdict(report: Report, *, running: bool = False) -> str:
    """Return one true sentence on the whole report; a run that is not complete says so first."""
    count = tally(report)
    if running and not report.alarms:  # without counts, which would be out of date at once
        return "Running: no problems found so far."
    done = extent(count, running=running)
    says = _cause(report, bool(done)) if report.alarms else _no_problem(report, count, bool(done))
    return f"{done}: {says}" if done else f"{says[:1].upper()}{says[1:]}"


def part_line(report: Report, part: str) -> str:
    """Return what a step or a stage tested: its own counts, which are no verdict on the model."""
    count = tally(report)
    parts = [plural(len(report.findings), "finding")] if report.findings else []
    parts += [str(count)] if str(count) else []
    parts += [f"{count.not_run} not run"] if count.not_run else []
    return f"This {part}: {', '.join(parts)}."


def extent(count: Tally, *, running: bool = False) -> str:
    """Return in words how much of the run is done; empty where all of it is."""
    if running:
        return "Running"
    if not count.not_run:
        return ""
    of = f"{count.done} of {plural(count.total, 'check')}"
    return f"Stopped after {of}" if count.stopped else f"After {of}"


def _no_problem(report: Report, count: Tally, so_far: bool) -> str:
    notes = plural(len(report.findings), "note") if report.findings else ""
    counts = ", ".join(part for part in (str(count), notes) if part)
    says = "no problems found" if count.passed or notes else "nothing could be checked"
    if so_far:
        return f"{says} so far ({counts})." if counts else f"{says} so far."
    return f"{says}: {counts}." if counts else f"{says}."


def _cause(report: Report, so_far: bool) -> str:
    first, others = report.alarms[0], len(report.alarms) - 1
    place = f" at {shortened(clean_text(first.where), 80)}" if first.where else ""
    rest = f", and there {'is' if others == 1 else 'are'} {plural(others, 'more finding')}" if others else ""
    return f"{'so far ' if so_far else ''}the most likely cause is {clean_text(first.check)}{place}{rest}."
