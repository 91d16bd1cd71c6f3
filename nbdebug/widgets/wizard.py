"""The guided troubleshooting cell: what was understood, the step at hand, what runs, and what it found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import ipywidgets as widgets
from torch import nn

from nbdebug.core.control import Effort
from nbdebug.core.finding import Finding, Result
from nbdebug.core.journal import Event
from nbdebug.core.options import Options, options_from
from nbdebug.engine.budgeting import in_budget_order
from nbdebug.engine.decision_tree import checks_for
from nbdebug.engine.diagnosis import DIAGNOSE_NAMES, conclude, run_within_budget
from nbdebug.engine.session import Session
from nbdebug.errors import NbdebugError
from nbdebug.report import Report
from nbdebug.setup import Setup
from nbdebug.views.output import Output, live_forms
from nbdebug.widgets.bisecting import Bisecting
from nbdebug.widgets.bounds import Bounds
from nbdebug.widgets.explore import Explore, Explored
from nbdebug.widgets.first_screen import FirstScreen
from nbdebug.widgets.improving import Improving
from nbdebug.widgets.keeping import cell_id, hand_over
from nbdebug.widgets.layout import VERDICT, Face
from nbdebug.widgets.noticing import Noticing
from nbdebug.widgets.pane import Pane
from nbdebug.widgets.result import RESULT, static_forms, whole_report
from nbdebug.widgets.runner import Conclude, Runner, Trial
from nbdebug.widgets.states import rows_of
from nbdebug.widgets.telling import Telling

__all__ = ["Wizard", "wizard"]

CHANGED = "Your model was changed or trained since it was measured: {} results are out of date."

_shown_in: dict[str, Wizard] = {}  # the newest wizard of each cell


def wizard(
    model: Any,
    loader: Any,
    loss_fn: Any = None,
    optimizer: Any = None,
    *,
    val_loader: Any = None,
    train_step: Callable[..., Any] | None = None,
    compute_loss: Callable[..., Any] | None = None,
    class_names: Sequence[str] | None = None,
    symptom: str | None = None,
    effort: Effort = "normal",
    options: Options | None = None,
    **more: Any,
) -> Wizard:
    """Open the guided troubleshooting cell on a model and its loader.

    It runs the checks of `nbdebug.diagnose`, at once or step by step. Run it again after a change: results that still
    hold are kept, the others are marked as out of date. Nothing of yours is changed.

    Args:
        model: Your model; several networks as a dict or a list, with the `train_step` that calls them.
        loader: The DataLoader of the training data, or any iterable of batches.
        loss_fn: Your loss; without one it is inferred, and can be corrected on the first screen.
        optimizer: Your optimizer, or several as a dict or a list; Adam on the copy by default.
        val_loader: The validation data, for leakage, distribution shift and different preprocessing.
        train_step: `train_step(model, batch, loss_fn, optimizer) -> loss`: the body of your training loop.
        compute_loss: `compute_loss(model, batch, loss_fn) -> loss`: how a batch that is not a pair is used.
        class_names: Names of the classes, for the report.
        symptom: What you see, such as "loss is NaN"; it can be chosen on the first screen as well.
        effort: What one click may start: "quick", "normal" (about a minute at most) or "thorough".
        options: The less common arguments, as `nbdebug.Options`.
        **more: The fields of `nbdebug.Options`, as keywords.
    """
    bounds = Bounds(effort, symptom, options_from(options, more, function="nbdebug.wizard", others=DIAGNOSE_NAMES))
    described = {"val_loader": val_loader, "train_step": train_step, "compute_loss": compute_loss}
    arguments = {"loss_fn": loss_fn, "optimizer": optimizer, "class_names": class_names, **described}
    made = Wizard(bounds, model=model, loader=loader, **arguments, **bounds.options.of_setup)
    here = cell_id()
    if here:
        if here in _shown_in:
            made.take_over(_shown_in[here])
        _shown_in[here] = made
    return made


class Wizard:
    """One cell: the first screen, the walk through the tree, the run, the verdict and the tabs beside it."""

    def __init__(self, bounds: Bounds | None = None, **arguments: Any) -> None:
        self._bounds, self._arguments = bounds or Bounds(), arguments
        self.session = self._bounds.session(Setup(**arguments))
        self._running = ""
        self._stale: set[str] = set()
        self._passed: set[str] = set()  # steps without checks that were skipped
        self._tab = VERDICT
        self.improving = Improving(self.session)
        self._output = Output()
        self.face = Face(self._rows(), self._guarded, self._output.key)
        self.telling = Telling(self.face)
        self.bisecting = Bisecting(self.face, self._start)
        self.first_screen = FirstScreen(self.face, self._correct)
        self.first_screen.fill(self.session)
        self._connect()
        self._listen()
        self._show_step()

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
        self._notice()
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
        session = Session(
            Setup(**arguments), control=self._bounds.control, seed=self.session.seed
        )  # refused before anything is given up
        old, self._arguments = self.session, arguments
        self._hush()
        self._stale.update(hand_over(old, session, set(changes)))
        self.session, self.improving = session, Improving(session)
        self.first_screen.fill(session)
        self.bisecting.clear()
        self._listen()
        self._tab = VERDICT
        self.face.tree.stages = self._rows()
        self._show_step()

    def take_over(self, old: Wizard) -> None:
        """Keep what still holds of an earlier wizard, and end that one."""
        mine, theirs = self._arguments, old._arguments
        changed = {name for name in {*mine, *theirs} if mine.get(name) is not theirs.get(name)}
        self._stale.update(hand_over(old.session, self.session, changed) | old._stale)
        selected = old.face.tree.selected
        old.close()
        self.first_screen.show_symptom(self.session)
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
        face.on_click(face.run_step, lambda: self._start(self.pane.jobs))
        face.on_click(face.run_rest, lambda: self._start(self._left(self.pane.rest_of_stage)))
        face.on_click(face.run_all, self._run_all)
        face.on_click(face.to_result, self._to_result)
        face.on_click(face.skip, self._skip)
        face.on_click(face.back, lambda: self._go(-1))
        face.on_click(face.forward, lambda: self._go(1))
        face.on_click(face.stop, self._cancel)
        face.on_click(face.apart, lambda: self._start(self.pane.experiments()))
        face.on_click(face.go, self._go_to_next)
        face.on_click(face.save, self._export)
        face.on_change(face.symptom, self._choose_symptom)
        face.on_click(face.no_symptom, lambda: setattr(face.symptom, "value", None))
        for name, button in face.tabs.items():
            face.on_click(button, lambda name=name: self._open(name))  # type: ignore[misc]
        face.tree.observe(lambda change: self._guarded(self._selected), "selected")
        face.steps.observe(lambda change: self._guarded(self._listed), "selected")

    def _listen(self) -> None:
        self.noticing = Noticing(self.session)
        self.explored = Explored(self.session)
        self.pane = Pane(self.session, self.face, self._stale, self._try, self._change_threshold, self.improving)
        self.runner = Runner(self.session, self._on_state, self.improving, self._bounds.limit, self.explored)
        self._unsubscribe = self.session.journal.subscribe(self._on_event)

    def _hush(self) -> None:
        self.runner.close()
        self.runner.join(10)
        self._unsubscribe()
        self.face.explore([])
        self.explored.close()

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

    def _left(self, checks: Iterable[str]) -> list[str]:
        """Return those of some checks that have no result on the model as it is now, so that nothing runs twice."""
        self._notice()
        known = {r.check for r in self.session.journal.results if not r.is_undone} - self._stale
        return [check for check in checks if check not in known]

    def _rows(self) -> Any:
        improving = self.improving.state(self._running)
        return rows_of(self.session, self._running, self._stale, self._passed, improving)

    def _correct(self, **changes: Any) -> None:
        """Take another loss than the one that was understood."""
        asked = self._arguments.get("loss_fn") if changes["loss"] == "" else getattr(nn, changes["loss"])()
        self.update(loss_fn=asked)

    def _choose_symptom(self) -> None:
        self.session.journal.symptom = ""
        if self.face.symptom.value:
            self.session.complain(self.face.symptom.value)
        self.first_screen.show_plan(self.session)
        self.pane.refresh()

    def _go_to_next(self) -> None:
        """Select what is recommended next: a step to run, or the step whose finding is to be mended."""
        self.face.tree.selected = self.pane.recommended() or self.face.tree.selected
        self._show_step()

    def _go(self, offset: int) -> None:
        """Select the step before or behind the one that is shown."""
        step = self.pane.neighbor(offset)
        if step is not None:
            self.face.tree.selected = step.id

    def _run_all(self) -> None:
        """Run every check that has no result yet; whoever opens a step meanwhile stays there."""
        left = self._left(self._every_check())
        if not left:
            self._to_result()
            self.face.say("Nothing has changed since: every check has its result.")
            return
        self.pane.running = True
        self._to_result()
        if self._bounds.limit is not None:
            left = in_budget_order(left, self.session.registry)
        self._start([*left, Conclude()])

    def _to_result(self) -> None:
        """Show the result of the whole run in place of a step."""
        self._tab = VERDICT
        self.face.tree.selected = RESULT
        self._show_step()

    def _selected(self) -> None:
        """Show the step that was clicked in the map; a stage opens the first of its steps that is not done."""
        self._tab = VERDICT
        for stage in self.face.tree.stages:
            if stage["id"] == self.face.tree.selected and stage["steps"]:
                waiting = [step for step in stage["steps"] if step["state"] in ("not-run", "stale", "running")]
                self.face.tree.selected = (waiting or stage["steps"])[0]["id"]
                return
        self._notice()
        self._show_step()

    def _listed(self) -> None:
        if self.face.steps.selected not in ("", self.face.tree.selected):
            self.face.tree.selected = self.face.steps.selected

    def _show_step(self) -> None:
        self.pane.show(self.face.tree.selected)
        self._show_screen()

    def _show_screen(self) -> None:
        """Choose the screen that fits what is selected and what runs."""
        selected, face = self.face.tree.selected, self.face
        stage = [s for s in face.tree.stages if any(step["id"] == selected for step in s["steps"])]
        face.steps.stages = stage
        face.steps.selected = selected if stage else ""
        is_new = not self.session.journal.results and not self._stale
        if self._tab != VERDICT:
            face.show("explore")
        elif selected != RESULT:
            face.show("step")
        else:
            face.show("running" if self.pane.running else "start" if is_new else "verdict")
        face.mark_tab(self._tab if face.screen in ("explore", "verdict") else "")

    def _open(self, tab: str) -> None:
        """Open a tab, and make it first where that is needed."""
        if tab == VERDICT:
            self._to_result()
            return
        self._notice()
        self._tab = tab
        content = self.explored.content(tab)
        self.face.explore(content or [])
        self._show_screen()
        if content is None:
            self._start([Explore(tab)])

    def _refresh(self) -> None:
        self.face.tree.stages = self._rows()
        self.pane.refresh()
        self._show_screen()

    def _notice(self) -> None:
        """See whether the model is still the one that was measured, and say so if it is not."""
        if self.runner.is_busy:
            return
        stale = self.noticing.stale()
        if stale:
            self._stale.update(stale)
            self.face.explore([])
            self.explored.close()
            self.face.tree.stages = self._rows()
            self.face.say(CHANGED.format(len(stale)))

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
        if not self.pane.checks:
            self._passed.add(self.pane.step)
        self.face.tree.stages = self._rows()
        self._go(1)

    def _start(self, jobs: Sequence[Any]) -> None:
        if jobs:
            self._notice()
            self.face.busy("starting")
            self.pane.running = any(isinstance(job, str) for job in jobs)  # and not a fix that is tried
            self.telling.begin(sum(isinstance(job, str) for job in jobs))
            self._stale.difference_update(job for job in jobs if isinstance(job, str))
            self.runner.start(jobs)

    def _try(self, finding: Finding, number: int) -> None:
        self._start([Trial(finding.check, finding.where, number, finding)])

    def _cancel(self) -> None:
        self.face.say("stopping")
        self.runner.cancel()

    def _export(self) -> None:
        path = self.report.save(self.face.path.value, include_samples=self._bounds.options.include_samples)
        self.face.say(f"written: {path}")

    def _on_state(self, state: str, text: str) -> None:
        """Hear from the runner, in its thread."""
        self._running = text if state == "running" else ""
        self.telling.where = self.pane.place_of(text) if state == "running" else ""
        self.pane.running &= state in ("running", "waiting")
        if not self.pane.running:
            self.telling.clear(self.pane)
        self._refresh()
        if state in ("running", "waiting"):
            self.face.busy({"running": f"checking {text}"}.get(state, text))
        else:
            self.face.idle((self.runner.outcome or "done") if state == "idle" else text, done=state == "idle")
            self._show_tab()
            self._keep()

    def _show_tab(self) -> None:
        content = self.explored.content(self._tab) if self._tab != VERDICT else None
        if content is not None:
            self.face.explore(content)

    def _on_event(self, event: Event) -> None:
        self.telling.hear(event, self.pane)
