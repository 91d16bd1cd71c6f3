"""The last stage of the wizard: where the error comes from, for a setup that has validation data."""

from __future__ import annotations

from dataclasses import dataclass

from nbdebug.core.journal import Event
from nbdebug.engine.decision_tree.begin_and_end import IMPROVE
from nbdebug.engine.decision_tree.states import State
from nbdebug.engine.session import Session
from nbdebug.improve.decomposition import Decomposition, decomposed
from nbdebug.widgets.screens import prose

__all__ = ["Decompose", "Improving"]

STEP = next(step for step in IMPROVE.steps if "decompose" in step.instruments)


@dataclass(frozen=True)
class Decompose:
    """The job of splitting the error, in the wizard's queue."""

    def __str__(self) -> str:
        """Say what is done."""
        return "where the error comes from"


class Improving:
    """Offers the decomposition of the error in the wizard, and keeps what it gave."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.result: Decomposition | None = None
        self.is_offered = session.setup.val_feed is not None

    def is_step(self, chosen: str) -> bool:
        """Return whether this is the step whose button splits the error."""
        return chosen == STEP.id

    def run(self) -> None:
        """Judge the samples of every split on a copy, with the target error that the user named."""
        self.session.journal.tell(Event("probe-started", "decompose", text="judging samples"))
        target = self.session.journal.answers.get("target-error")
        self.result = decomposed(self.session.setup, target_error=target, control=self.session.control)

    def state(self, running: str) -> State:
        """Return the state of the step as the tree shows it."""
        if running == str(Decompose()):
            return "running"
        return "clean" if self.result is not None else "not-run"

    @property
    def fragment(self) -> str:
        """The bar, the table and the advice, once they are there."""
        return prose(self.result._repr_html_()) if self.result is not None else ""
