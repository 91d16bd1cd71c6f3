"""The guided troubleshooting cell: what was understood, the step at hand, what runs, and what it found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as widgets

from nbdebug.core.announcements import on_begin
from nbdebug.core.control import Effort
from nbdebug.core.journal import Event
from nbdebug.core.options import Options, options_from
from nbdebug.engine.diagnosis import DIAGNOSE_NAMES, conclude, run_within_budget
from nbdebug.engine.session import Session
from nbdebug.errors import NbdebugError
from nbdebug.report import Report
from nbdebug.setup import Reading, Setup
from nbdebug.views.output import Output, live_forms
from nbdebug.widgets.bisecting import Bisecting
from nbdebug.widgets.bounds import Bounds
from nbdebug.widgets.explore import Explored
from nbdebug.widgets.first_screen import FirstScreen
from nbdebug.widgets.improving import Improving
from nbdebug.widgets.keeping import cell_id, hand_over
from nbdebug.widgets.layout import Face
from nbdebug.widgets.navigation import Navigation
from nbdebug.widgets.pane import Pane
from nbdebug.widgets.result import static_forms, whole_report
from nbdebug.widgets.runner import Runner
from nbdebug.widgets.selection import Selection
from nbdebug.widgets.states import rows_of
from nbdebug.widgets.tasks import Tasks

__all__ = ["Wizard", "wizard"]

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
        self._reading: Reading | None = None  # of a batch, where a person has chosen another one
        self.session = self._bounds.session(Setup(**arguments))
        self._running = ""
        self.stop_following: Callable[[], None]  # from here on, a training of the user's own changes no tab
        self._stale: set[str] = set()
        self._passed: set[str] = set()  # steps without checks that were skipped
        self.improving = Improving(self.session)
        self._output = Output()
        self.face = Face(self._rows(), self._guarded, self._output.key)
        self.first_screen = FirstScreen(self.face, self.update)
        self.first_screen.fill(self.session)
        self.tasks = Tasks(self.face, self._redraw, self._stale, self._passed)
        self.bisecting = Bisecting(self.face, self.tasks.start)
        self._connect()
        self._listen()
        self.navigation.show_step()

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
        self.tasks.notice()
        run_within_budget(self.session, self.tasks.every_check())
        conclude(self.session, shown=False)
        self._refresh()
        self.navigation.to_result()
        self._keep()
        return self.report

    def update(self, **changes: Any) -> None:
        """Go on with another model, loader, loss or optimizer.

        Results about data that is the same are kept; the others are marked as out of date.
        """
        reading = None if "loader" in changes or "model" in changes else changes.pop("reading", self._reading)
        arguments = {**self._arguments, **changes}
        setup = Setup(**arguments)
        session = Session(setup, control=self._bounds.control, seed=self.session.seed)  # refused before all else
        if reading is not None:
            setup.read_as(reading)
        changed = {*changes, *({"loader"} if reading is not self._reading else ())}
        old, self._arguments, self._reading = self.session, arguments, reading
        self._unsubscribe()
        self._stale.update(hand_over(old, session, changed))
        self.session, self.improving = session, Improving(session)
        self.first_screen.fill(session)
        self.bisecting.clear()
        self._listen()
        self.face.tree.stages = self._rows()
        self.navigation.show_step()

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
        self.navigation.show_step()

    def close(self) -> None:
        """Stop everything and take the widgets down."""
        self._unsubscribe()
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
        face, tasks = self.face, self.tasks
        face.on_click(face.run_all, self._run_all)
        face.on_click(face.skip, self._skip)
        face.on_click(face.save, self._export)
        face.on_change(face.symptom, self._choose_symptom)
        face.on_click(face.no_symptom, lambda: setattr(face.symptom, "value", None))
        self.navigation = Navigation(face, self._guarded, tasks.notice, tasks.start)

    def _listen(self) -> None:
        tasks = self.tasks
        self.selection = Selection(self.navigation.to_finding)
        self.explored = Explored(self.session, self.selection)
        self.pane = Pane(self.session, self.face, self._stale, tasks.try_fix, tasks.change_threshold, self.improving)
        self.runner = Runner(self.session, self._on_state, self.improving, self._bounds.limit, self.explored)
        tasks.follow(self.session, self.pane, self.runner, self.explored)
        self.navigation.follow(self.session, self.pane, self.explored, self._stale)
        self._ends = [self.session.journal.subscribe(self._on_event)]
        self.stop_following = on_begin(lambda run: self._guarded(self.navigation.show_tab))

    def _run_all(self) -> None:
        self.tasks.run_all(self.navigation.to_result, is_limited=self._bounds.limit is not None)

    def _skip(self) -> None:
        self.tasks.skip()
        self.navigation.go(1)

    def _unsubscribe(self) -> None:
        self.runner.close()
        self.runner.join(10)
        for end in (*self._ends, self.stop_following):
            end()
        self.face.explore([])
        self.explored.close()
        self.selection.close()

    def _guarded(self, act: Callable[[], None]) -> None:
        """Show what a handler raises, because errors in callbacks vanish."""
        try:
            act()
        except NbdebugError as error:
            self.face.say(str(error))
        except Exception as error:
            self.face.say(f"{type(error).__name__}: {error}")

    def _rows(self) -> Any:
        improving = self.improving.state(self._running)
        return rows_of(self.session, self._running, self._stale, self._passed, improving)

    def _choose_symptom(self) -> None:
        self.session.journal.symptom = ""
        if self.face.symptom.value:
            self.session.complain(self.face.symptom.value)
        self.first_screen.show_plan(self.session)
        self.pane.refresh()

    def _redraw(self) -> None:
        self.face.tree.stages = self._rows()

    def _refresh(self) -> None:
        self._redraw()
        self.pane.refresh()
        self.navigation.show_screen()

    def _export(self) -> None:
        path = self.report.save(self.face.path.value, include_samples=self._bounds.options.include_samples)
        self.face.say(f"written: {path}")

    def _on_state(self, state: str, text: str) -> None:
        """Hear from the runner, in its thread."""
        self._running = text if state == "running" else ""
        self.tasks.telling.where = self.pane.place_of(text) if state == "running" else ""
        self.pane.running &= state in ("running", "waiting")
        if not self.pane.running:
            self.tasks.telling.clear(self.pane)
        self._refresh()
        if state in ("running", "waiting"):
            self.face.busy(text)
            if state == "running":
                self.tasks.telling.begin_check(text, self.session)
        else:
            self.navigation.show_tab()
            said = (self.runner.outcome or "done") if state == "idle" else text
            self.face.idle(said, done=state == "idle", is_shown=state == "idle" and self.runner.is_shown)
            self._keep()

    def _on_event(self, event: Event) -> None:
        self.tasks.telling.hear(event, self.pane)
