"""`nbdebug.show_activations`: the values of every layer in one picture."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from nbdebug.charts import HistogramGrid
from nbdebug.charts.draw import as_png
from nbdebug.errors import NotApplicable, plainly
from nbdebug.evidence.activation_histograms import ActivationLook, Histogram, LayerLook
from nbdebug.evidence.recording import Recording
from nbdebug.experiments.tensor_stats import TensorFacts
from nbdebug.views import page
from nbdebug.views.asking import gathered, recorded
from nbdebug.views.view import View
from nbdebug.watch.recorder.series import LayerSeries, OctaveHistory

__all__ = ["ActivationView", "show_activations"]

LOOKED_AT = 1024  # values that a watch reads of a layer, of which it keeps the share that is not finite
FRAMES = 20  # moments of a training that are kept for the slider
COLUMNS = ("layer", "shape", "mean", "std", "zero", "dead", "saturated", "not finite")
NUMBERS = ("mean", "std", "abs_max", "zeros", "not_finite")  # of a layer at each of these moments


@plainly
def show_activations(
    model: Any,
    loader: Any = None,
    loss_fn: Callable[..., Any] | None = None,
    *,
    compute_loss: Callable[..., Any] | None = None,
) -> ActivationView:
    """Show what every layer gives on one batch: all layers in one picture, with dead and saturated shares.

    The batch runs through a copy of the model, in the mode that the model is in. In place of a model, what
    `nbdebug.watch` recorded can be passed; then the picture has a slider over the steps.

    Args:
        model: Your model, or what `nbdebug.watch` recorded.
        loader: The DataLoader, or any iterable of batches.
        loss_fn: Your loss; without one it is inferred.
        compute_loss: `compute_loss(model, batch, loss_fn) -> loss`: how a batch that is not a pair is used.
    """
    run = recorded(model)
    if run is not None:
        return ActivationView(*_from_recording(run))
    look = gathered(ActivationLook, model, loader, loss_fn, compute_loss=compute_loss)
    mode = "training" if look.training else "eval"
    return ActivationView(look, f"{len(look.layers)} layers, one batch of {look.samples} samples, in {mode} mode")


class ActivationView(View):
    """All layers in one picture; `look` holds the numbers."""

    name = "activations"

    def __init__(
        self, look: ActivationLook, says: str, frames: dict[str, Any] | None = None, *, is_beside: bool = False
    ) -> None:
        super().__init__()
        self._is_beside = is_beside  # something beside it shows the one that is selected
        self.look, self._says, self._frames = look, says, frames

    @property
    def data(self) -> dict[str, Any]:
        """What the front end draws."""
        return {
            "says": self._says,
            "beside": self._is_beside,
            "edges": [page.number(edge, 3) for edge in self.look.edges],
            "axis": self._axis,
            "layers": [_layer(layer) for layer in self.look.layers],
            "frames": self._frames,
        }

    @property
    def _axis(self) -> str:
        if self._frames is not None:
            return "One bin per octave, for positive and negative values."
        return "Linear near 0, logarithmic elsewhere." if self.look.is_log else ""

    @property
    def _moment(self) -> str:
        """Say which step is shown where there is no slider that does."""
        return "" if self._frames is None else f"; showing step {self._frames['steps'][-1]}"

    @property
    def exhibit(self) -> HistogramGrid:
        """The picture as plain data."""
        look = self.look
        rows = tuple(layer.path for layer in look.layers)
        counts = tuple(tuple(float(c) for c in layer.counts) for layer in look.layers)
        return HistogramGrid(
            rows, look.edges, counts, "Activations", "value" + (", logarithmic far from 0" * look.is_log)
        )

    @property
    def html(self) -> str:
        """The static page."""
        table = page.table(COLUMNS, self._rows()[:80])
        return page.page(
            f"Activations: {self._says}{self._moment}", page.drawn(self.exhibit, "values of every layer", 640), table
        )

    @property
    def png(self) -> bytes:
        """The static picture."""
        return as_png(self.exhibit)

    def __repr__(self) -> str:
        """Say in one line what it is."""
        return f"<nbdebug activations: {self._says}>"

    def __str__(self) -> str:
        """Return the statistics of every layer as text."""
        return f"Activations: {self._says}{self._moment}\n{page.aligned(COLUMNS, self._rows())}"

    def _rows(self) -> list[tuple[Any, ...]]:
        def share(value: float | None) -> str:
            return "" if value is None else f"{value:.0%}"

        return [
            (
                f"{layer.path} ({layer.module})",
                "×".join(map(str, layer.facts.shape)),
                layer.facts.mean,
                layer.facts.std,
                share(layer.facts.zeros),
                share(layer.dead),
                share(layer.saturated),
                share(_bad_share(layer.facts) or None),
            )
            for layer in self.look.layers
        ]


def _bad_share(facts: TensorFacts) -> float:
    """Return the share of values that are NaN or infinite."""
    return (facts.nan + facts.inf) / max(facts.count, 1)


def _layer(layer: LayerLook) -> dict[str, Any]:
    facts = layer.facts
    return {
        "path": layer.path,
        "module": layer.module,
        "shape": " × ".join(map(str, facts.shape)),
        "mean": page.number(facts.mean, 3),
        "std": page.number(facts.std, 3),
        "low": page.number(facts.low, 3),
        "high": page.number(facts.high, 3),
        "zeros": page.number(facts.zeros, 3),
        "bad": page.number(_bad_share(facts), 3),
        "dead": page.number(layer.dead, 3),
        "saturated": page.number(layer.saturated, 3),
        "calls": layer.calls,
        "counts": list(layer.counts),
        "own": histogram_data(layer.own),
        "before": histogram_data(layer.before),
    }


def histogram_data(histogram: Histogram | None) -> dict[str, Any] | None:
    """Return a histogram as the front end takes it."""
    if histogram is None:
        return None
    low, high = page.number(histogram.low), page.number(histogram.high)
    return {"low": low, "high": high, "counts": list(histogram.counts)}


def _from_recording(run: Recording) -> tuple[ActivationLook, str, dict[str, Any]]:
    layers = [layer for layer in run.layers.values() if len(layer.not_finite)]
    known = [layer.histogram for layer in layers if layer.histogram is not None]
    if not layers:
        raise NotApplicable("no layer outputs were recorded; run at least one training step under nbdebug.watch")
    steps = _moments(layers)
    edges = known[0].edges if known else OctaveHistory(np.zeros(0, np.int64), np.zeros((0, 0))).edges
    shares = np.stack([_at(layer, steps, len(edges) - 1) for layer in layers], 1)  # moments × layers × bins
    scaled = np.rint(255 * shares / np.maximum(shares.max(2, keepdims=True), 1e-12)).astype(np.uint8)
    numbers = np.stack([_numbers(layer, steps) for layer in layers], 1).astype("<f4")  # moments × layers × numbers
    looks = tuple(_last(layer, scaled[-1, i], numbers[-1, i]) for i, layer in enumerate(layers))
    look = ActivationLook(looks, tuple(edges.tolist()), True, 0, True)
    frames = {"steps": [int(s) for s in steps], "shares": _packed(scaled), "numbers": _packed(numbers)}
    return look, f"{len(layers)} layers over {run.tally.steps} steps of {run.model}", frames


def _moments(layers: list[LayerSeries]) -> np.ndarray:
    """Choose the steps that are shown, among those at which the layers were measured; the first and the newest stay."""
    rows = [layer.histogram.steps for layer in layers if layer.histogram is not None]
    every = np.unique(np.concatenate([layer.not_finite.steps for layer in layers]))
    told = np.unique(np.concatenate([every[:0], *rows]))
    # Where values are finite there is a picture for each row of the histograms; what comes after has none.
    whole = np.union1d(told, every[every > told[-1]]) if len(told) else every
    chosen: np.ndarray = whole[np.unique(np.linspace(0, len(whole) - 1, min(FRAMES, len(whole))).round().astype(int))]
    return chosen


def _row_at(series_steps: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return the newest row at or before each of these steps; the first row where there is none."""
    rows: np.ndarray = np.clip(np.searchsorted(series_steps, steps, side="right") - 1, 0, len(series_steps) - 1)
    return rows


def _at(layer: LayerSeries, steps: np.ndarray, bins: int) -> np.ndarray:
    """Return the layer's histogram at each of these steps; nothing where no value was finite."""
    if layer.histogram is None or not len(layer.histogram.steps):
        return np.zeros((len(steps), bins))
    shares: np.ndarray = layer.histogram.shares[_row_at(layer.histogram.steps, steps)]
    bad = layer.not_finite.values[_row_at(layer.not_finite.steps, steps)]
    return np.where(bad[:, None] >= 1, 0.0, shares)


def _numbers(layer: LayerSeries, steps: np.ndarray) -> np.ndarray:
    """Return the layer's numbers at each of these steps; NaN where none is known, because no value was finite."""
    found = []
    for name in NUMBERS:
        series = getattr(layer, name)
        values = series.values[_row_at(series.steps, steps)] if len(series) else np.full(len(steps), np.nan)
        found.append(np.where(np.isfinite(values), values, np.nan))
    return np.stack(found, 1)


def _packed(values: np.ndarray) -> str:
    return base64.b64encode(values.tobytes()).decode("ascii")


def _last(layer: LayerSeries, shares: np.ndarray, numbers: np.ndarray) -> LayerLook:
    mean, std, top, zeros, bad = map(float, numbers)
    facts = TensorFacts((), "", mean=mean, std=std, low=-top, high=top, zeros=zeros)
    facts = replace(facts, nan=round(bad * LOOKED_AT), count=LOOKED_AT)
    return LayerLook(layer.path, layer.module, facts, tuple(int(s) for s in shares), None)
