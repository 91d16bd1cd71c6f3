"""What the wizard looks like: its widgets and where they stand; what they do is the wizard's.

One root widget whose class says which screen is shown (start, step, running, verdict, explore); the style sheet hides
what does not belong to it, and puts the answer before the map where the cell is narrow.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from importlib import resources
from typing import Any

import ipywidgets as widgets

from nbdebug.report.page import Proof
from nbdebug.widgets.boxes import beside, choice, column, fitting, new_button, new_fold, row, side_by_side, wrapped
from nbdebug.widgets.closing import take_down
from nbdebug.widgets.explore import TABS
from nbdebug.widgets.fixes_panel import Trial, fix_rows
from nbdebug.widgets.for_assistant import copy_for_assistant
from nbdebug.widgets.pictures import Pictures
from nbdebug.widgets.screens import SYMPTOMS, heading, prose
from nbdebug.widgets.stage_tree import stage_tree

__all__ = ["Face", "Screen", "heading", "prose"]

Guard = Callable[[Callable[[], None]], None]
Screen = str  # start, step, running, verdict or explore
STYLE = resources.files("nbdebug.widgets").joinpath("wizard.css").read_text(encoding="utf-8")
VERDICT = "Verdict"


class Face:
    """The widgets of one wizard, from the chips of what was understood down to the export."""

    def __init__(self, rows: Any, guard: Guard, key: str = "") -> None:
        self._guard = guard
        self._trials: list[widgets.Button] = []
        self.tree = stage_tree(rows, key=key, form="map")
        self.steps = stage_tree(form="list")
        self.chips = widgets.HTML()
        self.task, self.loss, self.optimizer, self.layout = map(choice, ("task", "loss", "optimizer", "batch"))
        self.symptom = widgets.ToggleButtons(options=SYMPTOMS, value=None)
        self.symptom.add_class("nbdebug-symptoms")
        self.no_symptom = new_button("Clear", "quiet")
        self.batch, self.plan, self.to_batch = (
            widgets.HTML(),
            widgets.HTML(),
            new_button("Open the batch viewer", "quiet"),
        )
        self.kicker, self.question, self.why = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self.status = widgets.HTML()
        self.progress = widgets.FloatProgress(min=0, max=1, layout=row(height="8px"))
        self.run_step, self.run_rest = new_button("Run this step", "primary"), new_button("Run the rest of this stage")
        self.run_all = new_button("▶ Run diagnosis", "main")
        self.skip, self.stop, self.go = new_button("Skip"), new_button("Stop"), new_button("Go there")
        self.back, self.forward = new_button("← Back"), new_button("Next →")
        self.path = widgets.Text("report.html", description="Save as", layout=widgets.Layout(width="240px"))
        self.path.tooltip = "report.html, .ipynb, .json or .md"
        self.save = new_button("Export report")
        self.result, self.picture, self.next = widgets.HTML(), Pictures(), widgets.HTML()
        self.remedies, self.others, self.rest = widgets.VBox(), widgets.VBox(), widgets.HTML()
        self.to_result, self.summary = new_button("Show result"), widgets.HTML(layout=beside())
        self.apart, self.doubt = new_button("Tell them apart"), widgets.HTML(layout=beside())
        self.questions, self.thresholds = widgets.VBox(), widgets.VBox(layout=widgets.Layout(display="none"))
        self.works = widgets.VBox(layout=row())
        self.onward = widgets.HBox(layout=wrapped())
        self.tabs = {name: new_button(name, "tab") for name in (VERDICT, *TABS)}
        self.explored = widgets.VBox(layout=row())
        # No accordion: its icon needs a font that not every server gives.
        self.fold, self.more = new_fold("Thresholds of this step"), new_fold("Other fixes")
        for fold in (self.fold, self.more):
            fold.observe(self._unfold, "value")
        self.stop.disabled = True
        self._screen = ""
        self.view = self._arranged()
        self.show("start")

    def _arranged(self) -> widgets.Widget:
        self._doubts = widgets.HBox([self.apart, self.doubt], layout=wrapped(display="none"))
        self._back = widgets.HBox([self.to_result, self.summary], layout=wrapped(display="none", align_items="center"))
        head = side_by_side("head", [self.chips, self.task, self.loss, self.optimizer, self.layout, self.run_all])
        tabs = side_by_side("tabs", list(self.tabs.values()))
        told = widgets.VBox([side_by_side("told", [self.status, self.stop]), self.progress], layout=row())
        told.add_class("nbdebug-progress")
        whole = widgets.VBox(
            [
                widgets.HTML(f"<style>{STYLE}</style>", layout=widgets.Layout(display="none")),
                head,
                self.tree,
                tabs,
                told,
                self._start(),
                self._walk(),
                column("explored", [self.explored]),
                side_by_side("foot", [self.path, self.save]),
            ],
            layout=row(),
        )
        self.tree.add_class("nbdebug-map-box")
        whole.add_class("nbdebug-wizard")
        return whole

    def _start(self) -> widgets.Widget:
        seen = widgets.HTML("<h4>Your batch, as the network receives it</h4>")
        asked = widgets.HTML("<h4>What do you see? <span class='nbdebug-quiet'>(optional)</span></h4>")
        left = column("batch", [seen, self.batch, self.to_batch])
        right = column("ask", [asked, self.symptom, self.run_all, self.plan, self.no_symptom, self.works])
        return side_by_side("start", [left, right])

    def _walk(self) -> widgets.Widget:
        buttons = side_by_side("buttons", [self.run_step, self.run_rest, self.skip, self.back, self.forward])
        next_line = side_by_side("next", [self.next, self.go])
        step = [self._back, self.kicker, self.question, self.why, buttons, self.questions]
        left = column("found", [self.result, self.remedies, self.more, self.others])
        found = side_by_side("answer", [left, self.picture])
        pane = column(
            "pane", [*step, found, self._doubts, next_line, self.onward, self.rest, self.fold, self.thresholds]
        )
        return side_by_side("walk", [column("steps", [self.steps]), pane])

    def show(self, screen: Screen) -> None:
        """Show one of the screens; what does not belong to it is hidden by the style sheet."""
        if screen != self._screen:
            self._screen = screen
            self.view._dom_classes = ("nbdebug-wizard", f"nbdebug-on-{screen}")

    @property
    def screen(self) -> Screen:
        """The screen that is shown."""
        return self._screen

    def mark_tab(self, chosen: str) -> None:
        """Show which tab is open."""
        for name, button in self.tabs.items():
            button._dom_classes = ("nbdebug-tab", *(("nbdebug-on",) if name == chosen else ()))

    def explore(self, content: list[Any]) -> None:
        """Show what a tab holds; it belongs to the tab, and stays when another one is opened."""
        self.explored.children = tuple(content)

    def on_click(self, button: widgets.Button, act: Callable[[], None]) -> None:
        """Let a button do something; what goes wrong is shown, and the front end is told that the click arrived."""

        def hear(_: Any) -> None:
            self._guard(act)
            self.tree.heard += 1

        button.on_click(hear)

    def on_change(self, field: Any, act: Callable[[], None]) -> None:
        """Let a change of a field do something; what goes wrong is shown."""

        def hear(_: Any) -> None:
            self._guard(act)
            self.tree.heard += 1

        field.observe(hear, "value")

    def busy(self, text: str) -> None:
        """Show that something runs or waits."""
        self.say(text)
        self.status._dom_classes = ()
        self._switch(running=True)

    def idle(self, text: str, *, done: bool, is_shown: bool = False) -> None:
        """Show that nothing runs any more; what the screen shows already is told to a screen reader alone."""
        self.say(text)
        self.status._dom_classes = ("nbdebug-unseen",) * (text == "done" or is_shown)
        self.progress.value = 1.0 if done else 0.0
        self._switch(running=False)

    def _switch(self, *, running: bool) -> None:
        self.stop.disabled = not running
        for button in (self.run_step, self.run_rest, self.run_all, self.skip, self.apart, *self._trials):
            button.disabled = running

    def tell(self, done: float, text: str) -> None:
        """Show how far everything is that was asked for, and what is done now."""
        self.progress.value = done
        self.say(text)

    def say(self, text: str) -> None:
        """Show one line about what goes on, as text, whatever is in it."""
        self.status.value = prose(escape(text))

    def ask(self, panel: Any) -> None:
        """Show the questions of a step."""
        _exchange(self.questions, [panel])

    def tune(self, panel: Any) -> None:
        """Show the thresholds of a step."""
        _exchange(self.thresholds, [panel])

    def _unfold(self, change: Any) -> None:
        part = self.thresholds if change["owner"] is self.fold else self.others
        part.layout.display = None if change["new"] else "none"
        self.tree.heard += 1

    def of_step(self, shown: bool, *, runs: bool = True, rest: bool = True) -> None:
        """Show or hide what belongs to a single step: its question, its buttons and its thresholds."""
        parts = {self.run_step: runs, self.run_rest: rest, self.fold: runs}
        others = (self.kicker, self.question, self.questions, self.skip, self.back, self.forward)
        for part in (*others, *parts):
            part.layout.display = None if shown and parts.get(part, True) else "none"
        self.thresholds.layout.display = None if shown and runs and self.fold.value else "none"
        self._back.layout.display = "none"

    def lead_with(self, button: widgets.Button | None) -> None:
        """Make one button of a step the primary one; none where a fix has it."""
        for one in (self.run_step, self.forward):
            one.button_style = "primary" if one is button else ""

    def show_summary(self, says: str) -> None:
        """Show the result of the whole run in one line above a step, with a button that leads to it."""
        self.summary.value = prose(escape(says))
        self._back.layout.display = None if says else "none"

    def show_result(
        self, fragment: str, trials: list[Trial], rest: str = "", proof: Proof | None = None, copied: str = ""
    ) -> None:
        """Show what was found with its picture, what can be done about it, and the rest of the report below them.

        `copied` is the text for an assistant; empty where there is nothing to hand on. Without a proof, the pictures
        stay as they are.
        """
        self.result.value, self.rest.value = fitting(fragment), fitting(rest)
        if proof is not None:
            self.picture.show(proof)
        first, others, self._trials = fix_rows(
            trials, self.on_click, disabled=not self.stop.disabled, beside=copy_for_assistant(copied)
        )
        _exchange(self.remedies, first)
        _exchange(self.others, others)
        self.more.description = "1 other fix" if len(others) == 1 else f"{len(others)} other fixes"
        self.more.layout.display = None if others else "none"
        self.others.layout.display = None if self.more.value else "none"

    def show_onward(self, buttons: list[tuple[str, Callable[[], None]]]) -> None:
        """Offer what to do when nothing is left to fix, the most useful first."""
        made = [new_button(says, "" if number else "primary") for number, (says, _) in enumerate(buttons)]
        for button, (_, act) in zip(made, buttons, strict=True):
            self.on_click(button, act)
        _exchange(self.onward, made)

    def show_doubt(self, says: str) -> None:
        """Offer the experiment that tells the remaining causes apart; nothing where there is none."""
        self.doubt.value = prose(escape(says))
        self._doubts.layout.display = "" if says else "none"

    def show_next(self, what: str, why: str, *, elsewhere: bool) -> None:
        """Show what is recommended next, and why."""
        what = what if not what or what[-1] in ".?" else f"{what}."
        self.next.value = prose(f"<b>Next:</b> {escape(what)} <span>{escape(why)}</span>" if what else escape(why))
        self.go.layout.display = "" if elsewhere else "none"

    def close(self) -> None:
        """Take every widget down."""
        take_down((self.view,))


def _exchange(box: Any, children: list[Any]) -> None:
    """Show other children in a box, and close those that were there."""
    before, box.children = box.children, tuple(children)
    take_down(before)
