"""Where a person is in the wizard: at a step of the tree, at the result of the run, or in a tab; and the ways there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nbdebug.core.finding import Finding
from nbdebug.engine.session import Session
from nbdebug.widgets.explore import Explore, Explored
from nbdebug.widgets.layout import VERDICT, Face
from nbdebug.widgets.pane import Pane
from nbdebug.widgets.result import RESULT

__all__ = ["Navigation"]

Start = Callable[[Sequence[Any]], None]


class Navigation:
    """Chooses the screen, and hears the map, the list of steps and the tabs.

    `notice` looks whether the model is still the one that was measured, and `start` puts jobs into the queue.
    """

    def __init__(self, face: Face, guarded: Callable[..., None], notice: Callable[[], None], start: Start) -> None:
        self.face, self._notice, self._start = face, notice, start
        self.tab = VERDICT
        self.session: Session
        self.pane: Pane
        self.explored: Explored
        self._stale: set[str] = set()
        face.on_click(face.to_result, self.to_result)
        face.on_click(face.back, lambda: self.go(-1))
        face.on_click(face.forward, lambda: self.go(1))
        face.on_click(face.go, self._go_to_next)
        face.on_click(face.to_batch, lambda: self._open("Batch"))
        for name, button in face.tabs.items():
            face.on_click(button, lambda name=name: self._open(name))  # type: ignore[misc]
        face.tree.observe(lambda change: guarded(self._selected), "selected")
        face.steps.observe(lambda change: guarded(self._listed), "selected")

    def follow(self, session: Session, pane: Pane, explored: Explored, stale: set[str]) -> None:
        """Show another session from here on."""
        self.session, self.pane, self.explored, self._stale = session, pane, explored, stale
        self.tab = VERDICT

    def show_step(self) -> None:
        """Show what is selected in the map."""
        self.pane.show(self.face.tree.selected)
        self.show_screen()

    def show_screen(self) -> None:
        """Choose the screen that fits what is selected and what runs."""
        selected, face = self.face.tree.selected, self.face
        stage = [s for s in face.tree.stages if any(step["id"] == selected for step in s["steps"])]
        face.steps.stages = stage
        face.steps.selected = selected if stage else ""
        is_new = not self.session.journal.results and not self._stale
        if self.tab != VERDICT:
            face.show("explore")
        elif selected != RESULT:
            face.show("step")
        else:
            face.show("running" if self.pane.running else "start" if is_new else "verdict")
        face.mark_tab(self.tab if face.screen in ("explore", "verdict") else "")

    def show_tab(self) -> None:
        """Show anew what the open tab holds."""
        content = self.explored.content(self.tab) if self.tab != VERDICT else None
        if content is not None:
            self.face.explore(content)

    def to_result(self) -> None:
        """Show the result of the whole run in place of a step."""
        self.tab = VERDICT
        self.face.tree.selected = RESULT
        self.show_step()

    def to_finding(self, finding: Finding) -> None:
        """Show the step whose check raised a finding."""
        self.tab = VERDICT
        self.face.tree.selected = self.pane.step_of(finding.check) or RESULT
        self.show_step()

    def go(self, offset: int) -> None:
        """Select the step before or behind the one that is shown."""
        step = self.pane.neighbor(offset)
        if step is not None:
            self.face.tree.selected = step.id

    def _go_to_next(self) -> None:
        """Select what is recommended next: a step to run, or the step whose finding is to be fixed."""
        self.face.tree.selected = self.pane.recommended() or self.face.tree.selected
        self.show_step()

    def _selected(self) -> None:
        """Show the step that was clicked in the map; a stage opens the first of its steps that is not done."""
        self.tab = VERDICT
        for stage in self.face.tree.stages:
            if stage["id"] == self.face.tree.selected and stage["steps"]:
                waiting = [step for step in stage["steps"] if step["state"] in ("not-run", "stale", "running")]
                self.face.tree.selected = (waiting or stage["steps"])[0]["id"]
                return
        self._notice()
        self.show_step()

    def _listed(self) -> None:
        if self.face.steps.selected not in ("", self.face.tree.selected):
            self.face.tree.selected = self.face.steps.selected

    def _open(self, tab: str) -> None:
        """Open a tab, and make it first where that is needed."""
        if tab == VERDICT:
            self.to_result()
            return
        self._notice()
        self.tab = tab
        content = self.explored.content(tab)
        self.face.explore(content or [])
        self.show_screen()
        if content is None:
            self._start([Explore(tab)])
