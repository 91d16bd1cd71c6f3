"""Run checks, try remedies and tell causes apart from a button: the queue of the wizard."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from nbdebug.core.control import CANCELLED
from nbdebug.core.finding import Finding
from nbdebug.engine.decision_tree import tree_order
from nbdebug.engine.root_cause import Experiment, tell_apart
from nbdebug.engine.session import Session
from nbdebug.engine.source_changes import write_diffs
from nbdebug.engine.verdicts import settle
from nbdebug.widgets.bisecting import Bisect
from nbdebug.widgets.explore import Explore, Explored
from nbdebug.widgets.improving import Decompose, Improving
from nbdebug.widgets.worker import Tell, Worker

__all__ = ["Conclude", "Runner", "Trial"]


@dataclass(frozen=True)
class Trial:
    """A remedy of a finding that is to be tried on a copy."""

    check: str
    where: str
    number: int
    finding: Finding = field(compare=False)

    def __str__(self) -> str:
        """Say what is tried."""
        return f"{self.check}, a remedy on a copy"


@dataclass(frozen=True)
class Conclude:
    """The end of a run: judge alarms by how the training comes out, and write fixes as diffs of the user's own code.

    What comes of single steps is not judged.
    """

    judges: bool = True

    def __str__(self) -> str:
        """Say what is done."""
        return "how your training comes out" if self.judges else "the fix in your own code"


Job = str | Trial | Experiment | Decompose | Conclude | Explore | Bisect


class Runner(Worker[Job]):
    """One queue for one session: checks, trials, experiments that tell causes apart, and the error's decomposition."""

    def __init__(
        self,
        session: Session,
        tell: Tell,
        improving: Improving | None = None,
        time_limit: float | None = None,
        explored: Explored | None = None,
    ) -> None:
        self.session, self._improving, self._time_limit = session, improving or Improving(session), time_limit
        self._explored = explored or Explored(session)
        self.outcome = ""  # of the newest trial or experiment, in words
        self.is_shown = False  # whether the fix that was tried says so itself
        super().__init__(self._run, session.control, tell)

    def start(self, jobs: Iterable[Job]) -> None:
        """Put jobs into the queue; the time limit begins with each call."""
        self.session.control.allow(self._time_limit)
        self.session.journal.resume()  # that an earlier run was stopped says nothing about this one
        super().start(jobs)

    def cancel(self) -> None:
        """Stop what runs and forget what waits; the report says so, also where no check is marked as stopped."""
        if any(isinstance(job, str) for job in self._queue):  # and not a fix that is tried
            self.session.journal.stop("cancelled", CANCELLED)
        super().cancel()

    def _run(self, job: Job) -> None:
        self.outcome, self.is_shown = "", isinstance(job, Trial)
        journal = self.session.journal
        if isinstance(job, str):
            self.session.run([job])
        elif isinstance(job, Conclude):
            if job.judges:
                settle(self.session, tree_order(self.session.registry), shown=False)
            write_diffs(self.session)
        elif isinstance(job, Decompose):
            self._improving.run()
        elif isinstance(job, Bisect):
            self.outcome = job.run(self.session, journal.tell)
        elif isinstance(job, Explore):
            self._explored.make(job.tab)
        elif isinstance(job, Experiment):
            self.outcome = tell_apart(self.session, job, tree_order(self.session.registry), journal.tell)
        else:
            # A trial has sessions of its own, which would take the control's progress for themselves; Cancel is shared.
            control = self.session.control.shared()
            self.outcome = str(job.finding.verify(job.number, control=control, progress=journal.tell))

    def _undone(self, job: Job) -> None:
        if isinstance(job, str):
            self.session.journal.forget({job})
            self.session.journal.resume()  # it only gave way, and is run again
