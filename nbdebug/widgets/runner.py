"""Run checks and try remedies from a button: the queue of the wizard."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from nbdebug.finding import Finding
from nbdebug.session import Session
from nbdebug.widgets.improving import Decompose, Improving
from nbdebug.widgets.worker import Tell, Worker

__all__ = ["Runner", "Trial"]


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


class Runner(Worker["str | Trial | Decompose"]):
    """One queue of checks, trials and the decomposition of the error for one session."""

    def __init__(self, session: Session, tell: Tell, improving: Improving | None = None) -> None:
        self.session, self._improving = session, improving or Improving(session)
        self.outcome = ""  # of the newest trial, in words
        super().__init__(self._run, session.control, tell)

    def _run(self, job: str | Trial | Decompose) -> None:
        self.outcome = ""
        if isinstance(job, str):
            self.session.run([job])
            return
        if isinstance(job, Decompose):
            self._improving.run()
            return
        # A trial has sessions of its own, which would take the reins' progress for themselves; Cancel is shared.
        reins = copy.copy(self.session.control)
        self.outcome = str(job.finding.verify(job.number, control=reins, progress=self.session.journal.tell))

    def _undone(self, job: str | Trial | Decompose) -> None:
        if isinstance(job, str):
            self.session.journal.forget({job})
