"""The first screen: chips of what was understood, the batch, the symptoms, and what would run first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbdebug.engine.session import Session
from nbdebug.widgets import screens
from nbdebug.widgets.layout import Face
from nbdebug.widgets.understanding import LOSSES, TASKS, Understanding, understand

__all__ = ["FirstScreen"]

BRAND = "<b class='nbdebug-brand'>nbdebug</b>"


class FirstScreen:
    """Fills the first screen, and hears which part of it a person corrects."""

    def __init__(self, face: Face, correct: Callable[..., None]) -> None:
        self.face, self._correct = face, correct
        self._is_filling = False
        face.on_change(face.task, lambda: self._chosen(TASKS.get(face.task.value, "")))
        face.on_change(face.loss, lambda: self._chosen(face.loss.value))

    def fill(self, session: Session) -> None:
        """Show what is understood of a session's set-up."""
        known = understand(session)
        face = self.face
        self._is_filling = True
        face.chips.value = BRAND + screens.chip("model", known.model)
        face.more_chips.value = screens.chip("optimizer", known.optimizer) + screens.chip("batch", known.batch)
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
        self.face.plan.value = screens.plan(session.journal.symptom, session.registry)
        self.face.no_symptom.layout.display = None if session.journal.symptom else "none"

    def _offer(self, known: Understanding) -> None:
        """Offer other losses and tasks than those that were understood."""
        loss, task = self.face.loss, self.face.task
        losses = [(known.loss, ""), *((name, name) for name in LOSSES if name != known.loss)]
        tasks = [(known.task, ""), *((name, name) for name in TASKS)]
        for field, options in ((loss, losses), (task, tasks)):
            field.options, field.value = options, ""
            field.disabled = known.is_fixed
        loss.tooltip = f"{known.loss}, because {known.why}" if known.why else known.loss
        task.tooltip = f"{known.task}; choose another one to change the loss"

    def _chosen(self, loss: Any) -> None:
        if not self._is_filling and loss:
            self._correct(loss=loss)
