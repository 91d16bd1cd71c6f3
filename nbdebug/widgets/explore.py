"""The tabs of the wizard: the views of the batch, the activations, the gradients, the training and the layers.

Each is made when its tab is opened first, from the evidence of the wizard's own session, so that nothing is measured
twice; what the model's change makes out of date is made anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ipywidgets as widgets

from nbdebug.charts import Lines
from nbdebug.core.announcements import newest_run
from nbdebug.core.control import Control
from nbdebug.engine.decision_tree import tree_order
from nbdebug.engine.ranking import ranked
from nbdebug.engine.session import Session
from nbdebug.errors import NbdebugError, NotApplicable
from nbdebug.evidence.activation_histograms import MOST_SAMPLES, ActivationLook
from nbdebug.evidence.layer_costs import LayerCosts
from nbdebug.evidence.learning_gate import LearningGate
from nbdebug.evidence.overfit_one_batch import Overfit
from nbdebug.evidence.parameter_histograms import ParameterLooks
from nbdebug.views import page
from nbdebug.views.activations import ActivationView
from nbdebug.views.batch import BatchViewer
from nbdebug.views.batch_preview.parts import Taste
from nbdebug.views.batch_preview.preview import BatchView
from nbdebug.views.batch_preview.source import BatchSource, glance
from nbdebug.views.gradients import GradientView
from nbdebug.views.layers import LayerView
from nbdebug.views.live import LiveView
from nbdebug.views.view import View
from nbdebug.widgets.charts import Chart, chart_widget
from nbdebug.widgets.closing import take_down
from nbdebug.widgets.layer_detail import ActivationDetail, GradientDetail, beside_table
from nbdebug.widgets.selection import Selection
from nbdebug.widgets.step_charts import training_curve

__all__ = ["TABS", "Explore", "Explored"]

TABS = ("Batch", "Activations", "Gradients", "Training", "Layers")
LAYERED = ("Activations", "Gradients", "Layers")  # these share which layer is selected
WATCH = """with nbdebug.watch(model, optimizer) as live:
    for x, y in loader:
        ...
        live.log(loss=loss)"""


@dataclass(frozen=True)
class Explore:
    """The job of making a tab, in the wizard's queue."""

    tab: str

    def __str__(self) -> str:
        """Say what is done."""
        return f"the {self.tab.lower()} tab"


class Explored:
    """The tabs that were made, each a view with its widget."""

    def __init__(self, session: Session, selection: Selection | None = None) -> None:
        self.session = session
        self.selection = selection
        self._views: dict[str, View] = {}
        self._details: dict[str, tuple[Any, Any]] = {}  # what stands beside a table, and the box of both
        self._training: Any = None
        self._watched: tuple[Any, View] | None = None  # the run of the user's own training, and its curves
        self._charts: list[Chart] = []

    def content(self, tab: str) -> list[Any] | None:
        """Return the widgets of a tab; None where it has to be made first."""
        if tab == "Training":
            return self._curves()
        view = self._views.get(tab)
        if view is None:
            return None
        if tab not in LAYERED or self.selection is None:
            return [view.widget]
        self.selection.follow(ranked(self.session.journal.findings, tree_order(self.session.registry)))
        detail = self._details.get(tab)
        return [self.selection.view, view.widget if detail is None else detail[1]]

    def make(self, tab: str) -> None:
        """Measure what a tab shows, as far as that is not known, and make its view."""
        if tab in TABS and tab != "Training" and tab not in self._views:
            view = self._made(tab)
            shown = view.widget  # made here, while no cell runs
            if tab in LAYERED and self.selection is not None:
                self.selection.join(shown)
                self._add_detail(tab, view)
            self._views[tab] = view

    def close(self) -> None:
        """Take every view down."""
        if self.selection is not None:
            self.selection.leave()
        for detail, box in self._details.values():
            detail.close()
            box.children = ()  # the view takes its own widget down
            take_down((box,))
        self._details.clear()
        for view in self._views.values():
            view.close()
        self._views.clear()
        for chart in self._charts:
            chart.close()
        self._charts = []
        self._end_watching()
        if self._training is not None:
            take_down((self._training,))
            self._training = None

    def _add_detail(self, tab: str, view: View) -> None:
        """Put charts of the layer that is selected beside the table of all layers."""
        assert self.selection is not None
        detail: ActivationDetail | GradientDetail
        if isinstance(view, ActivationView):
            detail = ActivationDetail(view.look, self.session.setup.model, self._samples())
        elif isinstance(view, GradientView):
            detail = GradientDetail(view.looks, self.selection.choose)
        else:
            return
        self._details[tab] = detail, beside_table(view.widget, detail)
        self.selection.show_in(detail)

    def _samples(self) -> BatchView | None:
        """Return the first batch for display, which is the one that the activations are of."""
        session = self.session

        def look() -> BatchView:
            return glance(session.setup, session.setup.batches(1)[0], MOST_SAMPLES, session.control)

        try:
            return session.experiment("samples", "Looking at the first batch", look)
        except NbdebugError:
            return None

    def _made(self, tab: str) -> View:
        session = self.session
        if tab == "Batch":
            return BatchViewer(BatchSource(session.setup.feed.loader, session.setup, Taste(), 64, Control()))
        if tab == "Activations":
            look = session.measure(ActivationLook)
            mode = "training" if look.training else "eval"
            said = f"{len(look.layers)} layers, one batch of {look.samples} samples, in {mode} mode"
            return ActivationView(look, said, is_beside=self.selection is not None)
        if tab == "Gradients":
            looks = session.measure(ParameterLooks)
            said = f"one batch of {looks.samples} samples, loss {looks.loss:.4g}, one step of {looks.optimizer}"
            return GradientView(looks, said, is_beside=self.selection is not None)
        if tab == "Layers":
            results = session.journal.results
            return LayerView(session.measure(LayerCosts), session.journal.findings, checked=bool(results))
        raise NotApplicable(f"there is no tab called {tab}")

    def _curves(self) -> list[Any]:
        """Return the losses of the trainings that were run on copies, and how to watch the real one."""
        lines = self._lines()
        for chart, line in zip(self._charts, lines, strict=False):
            chart.update(line)
        self._charts += [chart_widget(line) for line in lines[len(self._charts) :]]
        for chart in self._charts[len(lines) :]:
            chart.close()
        del self._charts[len(lines) :]
        none = "" if lines else "<p>No training has run on a copy yet: run the diagnosis first.</p>"
        if self._training is None:
            self._training = widgets.HTML(layout=widgets.Layout(width="100%"))
        own = self._own_training()
        follow = "" if own else f"<h4>Follow your real training</h4>{page.code(WATCH)}"
        self._training.value = f"{none}{follow}"
        return [*own, *self._charts, self._training]

    def _own_training(self) -> list[Any]:
        """Return the curves of the user's own training, live while it runs; nothing where it is not watched."""
        models = self.session.setup.model.modules()
        run = next((run for model in models if (run := newest_run(model)) is not None), None)
        if self._watched is not None and self._watched[0] is not run:
            self._end_watching()
        if run is not None and self._watched is None:
            self._watched = run, LiveView(run)
        return [self._watched[1].widget] if self._watched is not None else []

    def _end_watching(self) -> None:
        if self._watched is not None:
            self._watched[1].close()
            self._watched = None

    def _lines(self) -> list[Lines]:
        gate, overfit = self.session.known(LearningGate), self.session.known(Overfit)
        lines = []
        if gate is not None and gate.losses:
            lines.append(training_curve(gate, "Loss of a short training on a copy"))
        if overfit is not None and overfit.curve.losses:
            lines.append(Lines.of_losses([("one batch", overfit.curve.losses)], "Loss while overfitting one batch"))
        return lines
