"""The last stage of the wizard: where the error comes from, for a setup that has validation data."""

from __future__ import annotations

from dataclasses import dataclass

from nbdebug.core.journal import Event
from nbdebug.engine.decision_tree.begin_and_end import IMPROVE
from nbdebug.engine.decision_tree.states import State
from nbdebug.engine.session import Session
from nbdebug.improve.decomposition import Decomposition, decomposed
from nbdebug.widgets.layout import prose
from nbdebug.widgets.stage_tree import Stage as StageRow
from nbdebug.widgets.stage_tree import Step as StepRow

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

    def about(self, chosen: str) -> tuple[str, str] | None:
        """Return the question and its reason where the stage or its step was chosen."""
        return (
            (STEP.label, f"{STEP.question} {STEP.why}") if self.is_offered and chosen in (IMPROVE.id, STEP.id) else None
        )

    def run(self) -> None:
        """Judge the samples of every split on a copy, with the target error that the user named."""
        self.session.journal.tell(Event("probe-started", "decompose", text="judging samples"))
        target = self.session.journal.answers.get("target-error")
        self.result = decomposed(self.session.setup, target_error=target, control=self.session.control)

    def row(self, running: str) -> StageRow:
        """Return the stage as the tree shows it."""
        state: State = "running" if running == str(Decompose()) else "clean" if self.result is not None else "not-run"
        step: StepRow = {"id": STEP.id, "title": STEP.label, "state": state, "count": 0}
        return {"id": IMPROVE.id, "title": IMPROVE.title, "state": state, "steps": [step]}

    @property
    def fragment(self) -> str:
        """The bar, the table and the advice, once they are there."""
        return prose(self.result._repr_html_()) if self.result is not None else ""
