"""The guided troubleshooting cell: the tree, the step at hand, and what it found."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from nbdebug.control import Control
from nbdebug.decision_tree import Stage, Step, stages
from nbdebug.diagnosis import report_of
from nbdebug.errors import NbdebugError
from nbdebug.journal import Event
from nbdebug.report import Report
from nbdebug.report.page import as_fragment
from nbdebug.session import Session
from nbdebug.subject import Subject
from nbdebug.widgets.runner import Runner
from nbdebug.widgets.stage_tree import stage_tree
from nbdebug.widgets.states import stage_rows

__all__ = ["Wizard", "wizard"]

MESSAGES_A_SECOND = 10  # progress is told at most so often


def wizard(model: Any, loader: Any, loss_fn: Any = None, optimizer: Any = None, **options: Any) -> Wizard:
    """Open the guided troubleshooting cell on a model and its loader.

    It takes the same arguments as `nbdebug.diagnose` and runs the same checks, one question at a time. Nothing of yours
    is changed.
    """
    return Wizard(model=model, loader=loader, loss_fn=loss_fn, optimizer=optimizer, **options)


class Wizard:
    """One cell: the tree on the left; on the right the question, its button, the progress and the findings."""

    def __init__(self, **arguments: Any) -> None:
        self._arguments = arguments
        self.session = Session(Subject(**arguments), control=Control())
        self._told = 0.0
        self._running_check = ""
        self._stale: set[str] = set()
        self._build()
        self.runner = Runner(self.session, self._on_state)
        self._unsubscribe = self.session.journal.subscribe(self._on_event)
        self._select(self._steps()[0][1].id)

    @property
    def report(self) -> Report:
        """The report of everything found so far."""
        return report_of(self.session)

    def run(self) -> Report:
        """Run the whole tree here and now, on the calling thread, so that Ctrl-C works; give the report."""
        self.session.run(check for _, step in self._steps() for check in step.checks)
        self._refresh()
        return self.report

    def update(self, **changes: Any) -> None:
        """Go on with another model, loader, loss or optimizer; what was found before is marked as out of date."""
        subject = Subject(**{**self._arguments, **changes})  # refused before anything is given up
        self._arguments |= changes
        self.runner.close()
        self.runner.join(10)
        self._unsubscribe()
        self._stale |= {result.check for result in self.session.journal.results}
        self.session = Session(subject, control=Control())
        self.runner = Runner(self.session, self._on_state)
        self._unsubscribe = self.session.journal.subscribe(self._on_event)
        self._refresh()

    def close(self) -> None:
        """Stop everything and take the widgets down."""
        self.runner.close()
        self._unsubscribe()
        for widget in (self.view, *self._parts):
            widget.close()

    def __repr__(self) -> str:
        """Give what a terminal shows in place of the cell."""
        return (
            f"<nbdebug wizard on {type(self.session.subject.model).__name__}; call .run() where no widgets are shown>"
        )

    def _repr_mimebundle_(self, **options: Any) -> Any:
        shown = self.view._repr_mimebundle_(**options)
        data, metadata = shown if isinstance(shown, tuple) else (shown, {})
        return {**(data or {}), "text/plain": repr(self)}, metadata

    def _build(self) -> None:
        self.tree = stage_tree(self._rows())
        self.question, self.why, self.status = widgets.HTML(), widgets.HTML(), widgets.Label()
        self.progress = widgets.FloatProgress(min=0, max=1, layout=widgets.Layout(width="100%"))
        self.run_step = self._button("Run this step", self._run_selected, style="primary")
        self.run_all = self._button("Run everything", self._run_everything)
        self.stop = self._button("Cancel", self._cancel)
        self.stop.disabled = True
        self.path = widgets.Text("report.html", description="Save as", layout=widgets.Layout(width="240px"))
        self.save = self._button("Export report", self._export)
        self.result = widgets.HTML()
        self.tree.observe(lambda change: self._guarded(lambda: self._show_step(change["new"])), "selected")
        buttons = widgets.HBox([self.run_step, self.run_all, self.stop], layout=widgets.Layout(flex_flow="row wrap"))
        export = widgets.HBox([self.path, self.save], layout=widgets.Layout(flex_flow="row wrap"))
        right = widgets.VBox(
            [self.question, self.why, buttons, self.progress, self.status, self.result, export],
            layout=widgets.Layout(flex="1 1 320px", min_width="0", padding="0 0 0 12px"),
        )
        left = widgets.Box([self.tree], layout=widgets.Layout(flex="0 1 300px", min_width="240px"))
        self.view = widgets.HBox([left, right], layout=widgets.Layout(flex_flow="row wrap", align_items="flex-start"))
        self._parts = [left, right, buttons, export, self.tree, self.question, self.why, self.status, self.progress]

    def _button(self, text: str, act: Callable[[], None], style: str = "") -> widgets.Button:
        button = widgets.Button(description=text, button_style=style, layout=widgets.Layout(width="auto"))
        button.on_click(lambda _: self._guarded(act))
        return button

    def _guarded(self, act: Callable[[], None]) -> None:
        """Show what a handler raises, because errors in callbacks vanish."""
        try:
            act()
        except NbdebugError as error:
            self.status.value = str(error)
        except Exception as error:
            self.status.value = f"{type(error).__name__}: {error}"

    def _steps(self) -> list[tuple[Stage, Step]]:
        return [(stage, step) for stage in stages(self.session.registry) for step in stage.steps]

    def _rows(self) -> Any:
        results = {result.check: result for result in self.session.journal.results}
        return stage_rows(stages(self.session.registry), results, self._running_check, self._stale)

    def _select(self, step: str) -> None:
        self.tree.selected = step
        self._show_step(step)

    def _selected(self) -> tuple[str, str, tuple[str, ...]]:
        """Give title, reason and checks of what is selected: a step, or a whole stage."""
        for stage in stages(self.session.registry):
            if stage.id == self.tree.selected:
                return stage.title, "", stage.checks
            for step in stage.steps:
                if step.id == self.tree.selected:
                    return step.question, step.why, step.checks
        return "", "", ()

    def _show_step(self, _: str) -> None:
        question, why, checks = self._selected()
        self.question.value = f"<h3 style='margin:0'>{_escaped(question)}</h3>"
        self.why.value = f"<p>{_escaped(why)}</p>"
        results = [result for result in self.session.journal.results if result.check in checks]
        if not results:
            self.result.value = ""
            return
        whole = self.report
        findings = [finding for finding in whole.findings if finding.check in checks]
        self.result.value = _fitting(as_fragment(Report(findings, results, whole.subject, whole.notes)))

    def _refresh(self) -> None:
        self.tree.stages = self._rows()
        self._show_step(self.tree.selected)

    def _run_selected(self) -> None:
        self._start(list(self._selected()[2]))

    def _run_everything(self) -> None:
        self._start([check for _, step in self._steps() for check in step.checks])

    def _start(self, checks: list[str]) -> None:
        self.status.value = "starting"
        self.stop.disabled = False
        self.run_step.disabled = self.run_all.disabled = True
        self._stale -= set(checks)
        self.runner.start(checks)

    def _cancel(self) -> None:
        self.status.value = "stopping"
        self.runner.cancel()

    def _export(self) -> None:
        path = self.report.save(self.path.value)
        self.status.value = f"written: {path}"

    def _on_state(self, state: str, text: str) -> None:
        """Hear from the runner, in its thread."""
        busy = state in ("running", "waiting")
        self._running_check = text if state == "running" else ""
        self._refresh()
        self.run_step.disabled = self.run_all.disabled = busy
        self.stop.disabled = not busy
        self.status.value = {"idle": "done", "running": f"checking {text}"}.get(state, text)
        if not busy:
            self.progress.value = 1.0 if state == "idle" else 0.0

    def _on_event(self, event: Event) -> None:
        """Hear from the journal; progress is passed on at most a few times a second."""
        if event.kind == "progress" and time.monotonic() - self._told > 1 / MESSAGES_A_SECOND:
            self._told = time.monotonic()
            self.progress.value, self.status.value = event.fraction, event.text
        elif event.kind == "probe-started":
            self.progress.value, self.status.value = 0.0, event.text


def _escaped(text: str) -> str:
    import html

    return html.escape(text)


def _fitting(fragment: str) -> str:
    """Let a fragment wrap to the width that the cell has, instead of widening it."""
    return f"<div style='width:0;min-width:100%'>{fragment}</div>"
