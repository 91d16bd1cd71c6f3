"""What the wizard looks like: its widgets and where they stand; what they do is the wizard's."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import ipywidgets as widgets

from nbdebug.engine.decision_tree import symptoms
from nbdebug.widgets.closing import take_down
from nbdebug.widgets.stage_tree import stage_tree

__all__ = ["Face", "heading", "prose"]

Guard = Callable[[Callable[[], None]], None]
Trial = tuple[str, Callable[[], None]]  # what a fix says, and what its button does


def heading(text: str) -> str:
    """Return a text as the heading of a step: the largest text of its pane."""
    return f"<h3 style='margin:4px 0;font-size:20px;line-height:1.3'>{escape(text)}</h3>" if text else ""


def prose(html: str) -> str:
    """Return text lines as close as a paragraph's; those of a widget stand as far apart as its buttons."""
    return f"<div style='line-height:1.4;margin:4px 0'>{html}</div>" if html else ""


class Face:
    """The widgets of one wizard: the tree at the left, and at the right the step from its question to its result."""

    def __init__(self, rows: Any, guard: Guard, key: str = "") -> None:
        self._guard = guard
        self._trials: list[widgets.Button] = []
        self.tree = stage_tree(rows, key=key)
        self.symptom = widgets.Dropdown(
            options=[(symptom.words, symptom.id) for symptom in symptoms()],
            description="What is wrong?",
            style={"description_width": "initial"},
            layout=widgets.Layout(width="auto", max_width="460px"),
        )
        self.question, self.why, self.status = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self.progress = widgets.FloatProgress(min=0, max=1, layout=_row(height="10px"))
        self.run_step, self.run_all = _button("Run this step", "primary"), _button("Run everything")
        self.skip, self.stop, self.go = _button("Skip"), _button("Cancel"), _button("Go there")
        self.path = widgets.Text("report.html", description="Save as", layout=widgets.Layout(width="240px"))
        self.save = _button("Export report")
        self.result, self.remedies, self.next = widgets.HTML(), widgets.VBox(), widgets.HTML()
        self.rest = widgets.HTML()
        self.to_result, self.summary = _button("Show result"), widgets.HTML(layout=_beside())
        self.apart, self.doubt = _button("Tell them apart"), widgets.HTML(layout=_beside())
        self.questions, self.thresholds = widgets.VBox(), widgets.VBox(layout=widgets.Layout(display="none"))
        # No accordion: its icon needs a font that not every server gives.
        short = widgets.Layout(width="auto", align_self="flex-start")
        self.fold = widgets.ToggleButton(description="Thresholds of this step", layout=short)
        self.fold.observe(self._unfold, "value")
        self.stop.disabled = True
        self.view = self._arranged()

    def _arranged(self) -> widgets.Widget:
        wrap = _wrapped(align_items="center")
        buttons = widgets.HBox([self.run_step, self.skip, self.run_all, self.stop], layout=wrap)
        onward = widgets.HBox([self.next, self.go], layout=wrap)
        self._doubts = widgets.HBox([self.apart, self.doubt], layout=_wrapped(display="none"))
        export = widgets.HBox([self.path, self.save], layout=wrap)
        self._back = widgets.HBox([self.to_result, self.summary], layout=_wrapped(display="none", align_items="center"))
        step = [self._back, self.symptom, self.question, self.why, self.questions, buttons, self.progress, self.status]
        found = [self.result, self.remedies, self._doubts, onward, self.rest]
        right = widgets.VBox(
            [*step, *found, self.fold, self.thresholds, export],
            layout=widgets.Layout(flex="999 1 320px", min_width="0", padding="0 0 0 12px"),
        )
        left = widgets.Box([self.tree], layout=widgets.Layout(flex="1 1 300px", min_width="240px"))
        # In a narrow cell the pane wraps to a line of its own: above the tree, so that the answer comes first.
        whole = widgets.HBox([left, right], layout=widgets.Layout(flex_flow="row wrap-reverse", align_items="flex-end"))
        whole.add_class("nbdebug-wizard")
        return whole

    def on_click(self, button: widgets.Button, act: Callable[[], None]) -> None:
        """Let a button do something; what goes wrong is shown, and the front end is told that the click arrived."""

        def hear(_: Any) -> None:
            self._guard(act)
            self.tree.heard += 1

        button.on_click(hear)

    def on_change(self, field: Any, act: Callable[[], None]) -> None:
        """Let a change of a field do something; what goes wrong is shown."""
        field.observe(lambda _: self._guard(act), "value")

    def busy(self, text: str) -> None:
        """Show that something runs or waits."""
        self.say(text)
        self._switch(running=True)

    def idle(self, text: str, *, done: bool) -> None:
        """Show that nothing runs any more."""
        self.say(text)
        self.progress.value = 1.0 if done else 0.0
        self._switch(running=False)

    def _switch(self, *, running: bool) -> None:
        self.stop.disabled = not running
        for button in (self.run_step, self.run_all, self.skip, self.apart, *self._trials):
            button.disabled = running

    def tell(self, fraction: float, text: str, seconds: float = 0.0) -> None:
        """Show how far it is after so many seconds, and how long it still takes, once that can be said."""
        self.progress.value = fraction
        known = fraction >= 0.1 and seconds >= 1
        self.say(f"{text} · about {seconds * (1 - fraction) / fraction:.0f} s left" if known else text)

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
        self.thresholds.layout.display = "" if change["new"] else "none"
        self.tree.heard += 1

    def of_step(self, shown: bool) -> None:
        """Show or hide what belongs to a single step: its question, its buttons and its thresholds."""
        hidden = None if shown else "none"
        for part in (self.question, self.questions, self.run_step, self.skip, self.fold):
            part.layout.display = hidden
        self.thresholds.layout.display = None if shown and self.fold.value else "none"
        self._back.layout.display = "none"

    def show_summary(self, says: str) -> None:
        """Show the result of the whole run in one line above a step, with a button that leads to it."""
        self.summary.value = prose(escape(says))
        self._back.layout.display = None if says else "none"

    def show_result(self, fragment: str, trials: list[Trial], rest: str = "", *, primary: bool = False) -> None:
        """Show what was found, a button for each fix that can be tried, and the rest of the report below them."""
        self.result.value, self.rest.value = _fitting(fragment), _fitting(rest)
        rows: list[widgets.Widget] = []
        self._trials = []
        for says, act in trials:
            button = _button("Try it on a copy", "primary" if primary and not rows else "")
            button.disabled = not self.stop.disabled
            self.on_click(button, act)
            self._trials.append(button)
            text = widgets.HTML(prose(escape(says)), layout=_beside())
            rows.append(widgets.HBox([button, text], layout=_wrapped()))
        _exchange(self.remedies, rows)

    def show_doubt(self, says: str) -> None:
        """Offer the experiment that tells the remaining causes apart; nothing where there is none."""
        self.doubt.value = prose(escape(says))
        self._doubts.layout.display = "" if says else "none"

    def show_next(self, what: str, why: str, *, elsewhere: bool) -> None:
        """Show what is recommended next, and why."""
        self.next.value = prose(f"<b>Next:</b> {escape(what)} <span>{escape(why)}</span>" if what else escape(why))
        self.go.layout.display = "" if elsewhere else "none"

    def close(self) -> None:
        """Take every widget down."""
        take_down((self.view,))


def _fitting(fragment: str) -> str:
    """Return a fragment that wraps to the width that the cell has, instead of widening it."""
    return f"<div style='width:0;min-width:100%'>{fragment}</div>" if fragment else ""


def _row(**more: str) -> widgets.Layout:
    return widgets.Layout(width="100%", **more)


def _wrapped(**more: str) -> widgets.Layout:
    return widgets.Layout(flex_flow="row wrap", **more)


def _beside() -> widgets.Layout:
    """Return the layout of a text beside a button."""
    return widgets.Layout(flex="1 1 240px", min_width="0")


def _button(text: str, style: str = "") -> widgets.Button:
    return widgets.Button(description=text, button_style=style, layout=widgets.Layout(width="auto"))


def _exchange(box: Any, children: list[Any]) -> None:
    """Show other children in a box, and close those that were there."""
    before, box.children = box.children, tuple(children)
    take_down(before)
