"""The first screen: chips of what was understood, the batch, the symptoms, and what would run first."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from nbdebug.engine.session import Session
from nbdebug.widgets import screens
from nbdebug.widgets.corrections import LOSSES, OPTIMIZERS, TASKS, changes_for
from nbdebug.widgets.layout import Face
from nbdebug.widgets.understanding import Understanding, understand

__all__ = ["FirstScreen"]

BRAND = "<b class='nbdebug-brand'>nbdebug</b>"
ANOTHER = "another model: wizard.update(model=…)"


class FirstScreen:
    """Fills the first screen, and hears which part of it a person corrects."""

    def __init__(self, face: Face, correct: Callable[..., None]) -> None:
        self.face, self._correct = face, correct
        self._is_filling = False
        self._known: Understanding
        self._session: Session
        self._chips = {"task": face.task, "loss": face.loss, "optimizer": face.optimizer, "batch": face.layout}
        for kind, chip in self._chips.items():
            face.on_change(chip, partial(self._chosen, kind))

    def fill(self, session: Session) -> None:
        """Show what is understood of a session's set-up."""
        self._session, self._known = session, (known := understand(session))
        face = self.face
        self._is_filling = True
        face.chips.value = BRAND + screens.chip("model", known.model, ANOTHER)
        self._offer(known)
        face.batch.value = screens.batch(known)
        self._is_filling = False
        self.show_symptom(session)

    def show_symptom(self, session: Session) -> None:
        """Show the symptom that the session has."""
        offered = [name for _, name in screens.SYMPTOMS]
        self._is_filling = True
        symptom = session.journal.symptom
        self.face.symptom.value = symptom if symptom in offered else None
        self._is_filling = False
        self.show_plan(session)

    def show_plan(self, session: Session) -> None:
        """Say what runs first, and why."""
        self.face.plan.value = screens.plan(session.journal.symptom, session.registry, session.control.budget)
        self.face.no_symptom.layout.display = None if session.journal.symptom else "none"

    def _offer(self, known: Understanding) -> None:
        """Offer, in the place of what was understood, what else it could be."""
        others = {
            "task": (known.task, TASKS, f"{known.task}; choose another one to change the loss"),
            "loss": (known.loss, LOSSES, f"{known.loss}, because {known.why}" if known.why else known.loss),
            "optimizer": (known.optimizer, OPTIMIZERS, f"{known.optimizer}; another one is tried on the copy only"),
            "batch": (known.batch, known.readings, known.how_read),
        }
        fixed = {"task": known.is_fixed, "loss": known.is_fixed, "optimizer": known.is_stepped}
        for kind, (now, names, about) in others.items():
            chip = self._chips[kind]
            chip.options = [(now, ""), *((name, name) for name in names if name != now)]
            chip.value, chip.tooltip = "", about
            chip.disabled = fixed.get(kind, False) or len(chip.options) == 1

    def _chosen(self, kind: str) -> None:
        chosen = self._chips[kind].value
        if not self._is_filling and chosen:
            self._correct(**changes_for(self._session.setup, kind, chosen, self._known.readings))
