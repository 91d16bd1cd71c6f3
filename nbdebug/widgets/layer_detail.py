"""What is beside the tables of the Activations and Gradients tabs: charts of the layer that is selected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any, TypeVar

import ipywidgets as widgets
import numpy as np

from nbdebug.charts import Bars, HistogramGrid
from nbdebug.core.announcements import newest_run
from nbdebug.core.text import clean_text, plural
from nbdebug.evidence.activation_histograms import ActivationLook, Histogram, LayerLook
from nbdebug.evidence.parameter_histograms import ParameterLook, ParameterLooks
from nbdebug.setup import unwrap
from nbdebug.views.asking import recorded
from nbdebug.views.batch_preview.preview import BatchView
from nbdebug.widgets.boxes import column
from nbdebug.widgets.charts import Chart, chart_widget
from nbdebug.widgets.closing import take_down
from nbdebug.widgets.screens import prose, samples
from nbdebug.widgets.selection import is_about

__all__ = ["ActivationDetail", "GradientDetail", "beside_table"]

MOST_MOMENTS = 12  # of a recorded training
SHOWN = 4  # samples of either kind
MUCH = 0.5  # of the units; from here on zero is marked as the part that is dead
T = TypeVar("T", LayerLook, ParameterLook)


def beside_table(table: Any, detail: Any) -> widgets.HBox:
    """Return a table with its detail at the side, or below where there is no room."""
    box = widgets.HBox([table, detail.view], layout=widgets.Layout(width="100%", flex_flow="row wrap"))
    box.add_class("nbdebug-beside")
    return box


class _Detail:
    """Words above, charts, and words below, for one layer after another."""

    def __init__(self) -> None:
        self._says, self._more = widgets.HTML(), widgets.HTML()
        self._charts: list[Chart] = []
        self.view = column("detail", [self._says, self._more])

    def close(self) -> None:
        """Take everything down."""
        take_down((self.view,))

    def _show(self, says: str, charts: Sequence[Any], more: str = "") -> None:
        self._says.value, self._more.value = says, more
        for shown, chart in zip(self._charts, charts, strict=False):
            shown.update(chart)
        self._charts += [chart_widget(chart) for chart in charts[len(self._charts) :]]
        gone = self._charts[len(charts) :]
        del self._charts[len(charts) :]
        self.view.children = (*self._fixed(), self._says, *self._charts, self._more)
        for chart in gone:
            chart.close()

    def _fixed(self) -> Sequence[widgets.Widget]:
        return ()


class ActivationDetail(_Detail):
    """The histogram of a layer, over the recorded steps as well, its units, and the samples that drive it."""

    def __init__(self, look: ActivationLook, model: Any, preview: BatchView | None) -> None:
        super().__init__()
        self._look, self._model, self._preview = look, model, preview

    def choose(self, path: str) -> None:
        """Show the layer that is selected, or else the one with the most units that are dead or saturated."""
        layer = _named(path, self._look.layers, lambda layer: layer.path)
        layer = layer or max(self._look.layers, key=lambda each: max(each.dead or 0.0, each.saturated or 0.0))
        facts = layer.facts
        title = f"<h4>{_text(layer.path)} · {_text(layer.module)}</h4>"
        line = f"mean {facts.mean:.3g}, standard deviation {facts.std:.3g}, zero {facts.zeros:.0%}"
        charts = [_histogram(layer.own, "Values on this batch", dead=(layer.dead or 0) >= MUCH)] if layer.own else []
        if layer.before is not None:
            charts.append(_histogram(layer.before, "Before the nonlinearity"))
        charts += _over_steps(self._model, layer.path)
        self._show(title + prose(f"<span class='nbdebug-quiet'>{line}</span>"), charts, self._units(layer))

    def _units(self, layer: LayerLook) -> str:
        parts = []
        if layer.fires:
            silent = [i for i, share in enumerate(layer.fires) if share == 0]
            cells = "".join(
                f'<i title="unit {i}: not 0 for {share:.0%} of the values"{" class=nbdebug-silent" * (share == 0)} '
                f'style="--fires:{share:.2f}"></i>'
                for i, share in enumerate(layer.fires)
            )
            worst = f": {', '.join(map(str, silent[:8]))}{', …' * (len(silent) > 8)}" if silent else ""
            says = f"{len(silent)} of {plural(len(layer.fires), 'unit')} output 0 for every sample of this batch{worst}"
            parts.append(
                f"<h4>Units</h4>{prose(says)}<div class='nbdebug-units' role='img' aria-label='{says}'>{cells}</div>"
            )
        order = np.argsort(layer.by_sample)[::-1].tolist()
        if self._preview is not None and len(order) > 1:
            known = [place for place in order if place < len(self._preview.samples)]
            first, last = known[:SHOWN], [place for place in known[-SHOWN:] if place not in known[:SHOWN]]
            parts += [
                f"<h4>{name} mean output</h4>{samples(self._preview, at)}"
                for name, at in (("Largest", first), ("Smallest", last))
                if at
            ]
        return "".join(parts)


class GradientDetail(_Detail):
    """The gradient norms as bars to choose from, and the histograms of the parameter that is selected."""

    def __init__(self, looks: ParameterLooks, chosen: Callable[[str], None]) -> None:
        super().__init__()
        self._all = looks.parameters
        known = [look for look in looks.parameters if look.gradient is not None]
        self._names = [look.name for look in known]
        self._bars = chart_widget(
            Bars(tuple(self._names), tuple(look.gradient or 0.0 for look in known), "Gradient norm", log=True)
        )
        self._bars.on_choose(lambda place: chosen(self._names[place]))
        self.view.children = (self._bars, *self.view.children)

    def choose(self, path: str) -> None:
        """Show the parameter that is selected, the first one of the layer, or the first of all."""
        look = _named(path, self._all, lambda look: look.name)
        self._bars.choose(self._names.index(look.name) if look is not None and look.name in self._names else -1)
        look = look or self._all[0]
        shown = [("Gradient", look.gradients), ("Weight", look.weights)]
        charts = [_histogram(bins, name) for name, bins in shown if bins is not None]
        self._show(f"<h4>{_text(look.name)} · {' × '.join(map(str, look.shape))}</h4>", charts)

    def _fixed(self) -> Sequence[widgets.Widget]:
        return (self._bars,)


def _named(path: str, looks: Sequence[T], name: Callable[[T], str]) -> T | None:
    """Return what has this name, or else is about it."""
    exact = next((look for look in looks if name(look) == path), None)
    return exact or next((look for look in looks if path and is_about(path, name(look))), None)


def _histogram(bins: Histogram, title: str, *, dead: bool = False) -> HistogramGrid:
    """Return a histogram; the bin of zero stands out where most units are dead."""
    half = 0.0 if bins.high > bins.low else 0.5 * max(abs(bins.low), 1.0)  # where all values are the same
    edges = np.linspace(bins.low - half, bins.high + half, len(bins.counts) + 1)
    zero = int(np.clip(np.searchsorted(edges, 0.0, side="right") - 1, 0, len(bins.counts) - 1))
    marked = (zero,) if dead and bins.low <= 0 <= bins.high else ()
    title += "; orange: zero, where most units are dead" * bool(marked)
    return HistogramGrid((title,), tuple(edges.tolist()), (tuple(map(float, bins.counts)),), title, marked=marked)


def _over_steps(model: Any, path: str) -> list[HistogramGrid]:
    """Return the histograms of a layer over the steps of the newest training that was watched, if there is one."""
    runs = (run for part in unwrap(model).modules() if (run := newest_run(part)) is not None)
    recording = recorded(next(runs, None))
    series = recording.layers.get(path) if recording is not None else None
    history = series.histogram if series is not None else None
    if history is None or not len(history.steps):
        return []
    chosen = np.unique(
        np.linspace(0, len(history.steps) - 1, min(MOST_MOMENTS, len(history.steps))).round().astype(int)
    )
    used = np.flatnonzero(history.shares[chosen].sum(0) > 0)
    low, high = int(used[0]), int(used[-1]) + 1
    rows = tuple(f"step {int(history.steps[i])}" for i in chosen)
    counts = tuple(tuple(map(float, history.shares[i, low:high])) for i in chosen)
    edges = tuple(map(float, history.edges[low : high + 1]))
    return [HistogramGrid(rows, edges, counts, "Over the steps of your training", "value, one bin per octave")]


def _text(text: object) -> str:
    return escape(clean_text(text))
