"""Run checks from a button: the queue of the wizard."""

from __future__ import annotations

from nbdebug.session import Session
from nbdebug.widgets.worker import Tell, Worker

__all__ = ["Runner"]


class Runner(Worker[str]):
    """One queue of checks for one session."""

    def __init__(self, session: Session, tell: Tell) -> None:
        self.session = session
        super().__init__(lambda check: session.run([check]), session.control, tell)

    def _undone(self, job: str) -> None:
        self.session.journal.forget({job})
