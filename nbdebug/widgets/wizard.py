"""The guided troubleshooting cell: the tree, the step at hand, and what it found."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as widgets

from nbdebug.core.finding import Finding, Result
from nbdebug.core.journal import Event
from nbdebug.engine.budgeting import in_budget_order
from nbdebug.engine.decision_tree import checks_for, stages
from nbdebug.engine.diagnosis import conclude, run_within_budget
from nbdebug.engine.session import Session
from nbdebug.errors import NbdebugError
from nbdebug.report import Report
from nbdebug.setup import Setup
from nbdebug.views.output import Output, live_forms
from nbdebug.widgets.bounds import Bounds
from nbdebug.widgets.improving import Improving
from nbdebug.widgets.keeping import cell_id, hand_over
from nbdebug.widgets.layout import Face
from nbdebug.widgets.pane import Pane
from nbdebug.widgets.result import RESULT, static_forms, whole_report
from nbdebug.widgets.runner import Conclude, Runner, Trial
from nbdebug.widgets.states import stage_rows

__all__ = ["Wizard", "wizard"]

MESSAGES_A_SECOND = 10  # progress is told at most so often

_shown_in: dict[str, Wizard] = {}  # the newest wizard of each cell


def wizard(model: Any, loader: Any, loss_fn: Any = None, optimizer: Any = None, **options: Any) -> Wizard:
    """Open the guided troubleshooting cell on a model and its loader.

    It takes what `nbdebug.diagnose` takes to describe what is examined, `thresholds`, an `effort` or a `time_limit` in
    seconds for what one click starts, and `include_samples` for its report. It runs the same checks, one question at a
    time. Run it again after a change: what still holds is kept, the rest is marked as out of date. Nothing of yours is
    changed.
    """
    made = Wizard(model=model, loader=loader, loss_fn=loss_fn, optimizer=optimizer, **options)
    here = cell_id()
    if here:
        if here in _shown_in:
            made.take_over(_shown_in[here])
        _shown_in[here] = made
    return made


class Wizard:
    """One cell: the tree on the left; on the right the symptom, the question, its buttons, and what was found."""

    def __init__(self, **arguments: Any) -> None:
        self._bounds, self._arguments = Bounds.out_of(arguments), arguments
        self.session = self._bounds.session(Setup(**arguments))
        self._told = self._begun = 0.0
        self._running = ""
        self._stale: set[str] = set()
        self.improving = Improving(self.session)
        self._output = Output()
        self.face = Face(self._rows(), self._guarded, self._output.key)
        self._connect()
        self._listen()
        self._go_to_next()

    @property
    def report(self) -> Report:
        """The report of everything found so far, with what you said and the remedies that were tried."""
        return whole_report(self.session)

    @property
    def view(self) -> widgets.Widget:
        """The widget that the cell shows."""
        return self.face.view

    def run(self) -> Report:
        """Run the whole tree here and now, on the calling thread, so that Ctrl-C works; give the report."""
        self.session.control.allow(self._bounds.limit)
        run_within_budget(self.session, self._every_check())
        conclude(self.session, shown=False)
        self._refresh()
        self._to_result()
        self._keep()
        return self.report

    def update(self, **changes: Any) -> None:
        """Go on with another model, loader, loss or optimizer.

        Results about data that is the same are kept; the others are marked as out of date.
        """
        arguments = {**self._arguments, **changes}
        session = Session(Setup(**arguments), control=self._bounds.control)  # refused before anything is given up
        old, self._arguments = self.session, arguments
        self._hush()
        self._stale.update(hand_over(old, session, set(changes)))
        self.session, self.improving = session, Improving(session)
        self._listen()
        self.face.tree.stages = self._rows()
        self._show_step()

    def take_over(self, old: Wizard) -> None:
        """Keep what still holds of an earlier wizard, and end that one."""
        mine, theirs = self._arguments, old._arguments
        changed = {name for name in {*mine, *theirs} if mine.get(name) is not theirs.get(name)}
        self._stale.update(hand_over(old.session, self.session, changed) | old._stale)
        selected = old.face.tree.selected
        old.close()
        self.face.symptom.value = self.session.journal.symptom or "unknown"
        self.face.tree.stages = self._rows()
        self.face.tree.selected = selected
        self._show_step()

    def close(self) -> None:
        """Stop everything and take the widgets down."""
        self._hush()
        self.face.close()

    def __repr__(self) -> str:
        """Return what a terminal shows in place of the cell."""
        return f"<nbdebug wizard on {type(self.session.setup.model).__name__}; call .run() where no widgets are shown>"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return live_forms(self.view, repr(self), **options)

    def _ipython_display_(self) -> None:
        """Show the cell and, hidden while that is live, what it has found, which stays in the saved notebook."""
        self._output.show(self.view, repr(self), self._static_forms())

    def _static_forms(self) -> dict[str, str]:
        return static_forms(self.report, repr(self))

    def _keep(self) -> None:
        """Put what was found so far into the output that stays."""
        self._output.keep(self._static_forms)

    def _connect(self) -> None:
        face = self.face
        face.symptom.value = self.session.journal.symptom or "unknown"
        face.on_click(face.run_step, lambda: self._start(self.pane.jobs))
        face.on_click(face.run_all, self._run_all)
        face.on_click(face.to_result, self._to_result)
        face.on_click(face.skip, self._skip)
        face.on_click(face.stop, self._cancel)
        face.on_click(face.apart, lambda: self._start(self.pane.experiments()))
        face.on_click(face.go, self._go_to_next)
        face.on_click(face.save, self._export)
        face.on_change(face.symptom, self._choose_symptom)
        face.tree.observe(lambda change: self._guarded(self._show_step), "selected")

    def _listen(self) -> None:
        self.pane = Pane(self.session, self.face, self._stale, self._try, self._change_threshold, self.improving)
        self.runner = Runner(self.session, self._on_state, self.improving, self._bounds.limit)
        self._unsubscribe = self.session.journal.subscribe(self._on_event)

    def _hush(self) -> None:
        self.runner.close()
        self.runner.join(10)
        self._unsubscribe()

    def _guarded(self, act: Callable[[], None]) -> None:
        """Show what a handler raises, because errors in callbacks vanish."""
        try:
            act()
        except NbdebugError as error:
            self.face.say(str(error))
        except Exception as error:
            self.face.say(f"{type(error).__name__}: {error}")

    def _every_check(self) -> list[str]:
        """Return every check in the order for the symptom."""
        return checks_for(self.session.journal.symptom, self.session.registry)

    def _rows(self) -> Any:
        results = {result.check: result for result in self.session.journal.results}
        rows = stage_rows(stages(self.session.registry), results, self._running, self._stale)
        return [*rows, self.improving.row(self._running)] if self.improving.is_offered else rows

    def _choose_symptom(self) -> None:
        self.session.complain(self.face.symptom.value)
        self._go_to_next()

    def _go_to_next(self) -> None:
        """Select what is recommended next: a step to run, or the step whose finding is to be mended."""
        self.face.tree.selected = self.pane.recommended() or self.face.tree.selected
        self._show_step()

    def _run_all(self) -> None:
        """Run every check beside the result, which fills; whoever opens a step meanwhile stays there."""
        self.pane.running = True
        self._to_result()
        every = self._every_check()
        if self._bounds.limit is not None:
            every = in_budget_order(every, self.session.registry)
        self._start([*every, Conclude()])

    def _to_result(self) -> None:
        """Show the result of the whole run in place of a step."""
        self.face.tree.selected = RESULT
        self._show_step()

    def _show_step(self) -> None:
        self.pane.show(self.face.tree.selected)

    def _refresh(self) -> None:
        self.face.tree.stages = self._rows()
        self.pane.refresh()

    def _change_threshold(self, check: str, name: str, value: Any) -> None:
        self.session.set_thresholds(check, **{name: value})
        self._stale.update({check} & {result.check for result in self.session.journal.results})
        self.face.tree.stages = self._rows()
        self.face.say(f"{name} of {check} is {value:g} from now on; run the step again")

    def _skip(self) -> None:
        known = {result.check for result in self.session.journal.results}
        for check in self.pane.checks:
            if check not in known or check in self._stale:
                self.session.journal.write(Result(check, "skipped", reason="you skipped it", left_out="user"))
        self._stale.difference_update(self.pane.checks)
        self.face.tree.stages = self._rows()
        self._go_to_next()

    def _start(self, jobs: Sequence[Any]) -> None:
        if jobs:
            self.face.busy("starting")
            self.pane.running = any(isinstance(job, str) for job in jobs)  # and not a fix that is tried
            self._stale.difference_update(job for job in jobs if isinstance(job, str))
            self.runner.start(jobs)

    def _try(self, finding: Finding, number: int) -> None:
        self._start([Trial(finding.check, finding.where, number, finding)])

    def _cancel(self) -> None:
        self.face.say("stopping")
        self.runner.cancel()

    def _export(self) -> None:
        path = self.report.save(self.face.path.value, include_samples=self._bounds.include_samples)
        self.face.say(f"written: {path}")

    def _on_state(self, state: str, text: str) -> None:
        """Hear from the runner, in its thread."""
        self._running = text if state == "running" else ""
        self.pane.running &= state in ("running", "waiting")
        self._refresh()
        if state in ("running", "waiting"):
            self.face.busy({"running": f"checking {text}"}.get(state, text))
        else:
            self.face.idle((self.runner.outcome or "done") if state == "idle" else text, done=state == "idle")
            self._keep()

    def _on_event(self, event: Event) -> None:
        """Hear from the journal; progress is passed on at most a few times a second."""
        if event.kind == "probe-started":
            self._begun = time.monotonic()
            self.face.tell(0.0, event.text)
        elif event.kind == "progress" and time.monotonic() - self._told > 1 / MESSAGES_A_SECOND:
            self._told = time.monotonic()
            self.face.tell(event.fraction, event.text, self._told - self._begun)
