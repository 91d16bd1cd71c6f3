"""`nbdebug.show_activations`: the values of every layer in one picture."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from nbdebug.errors import NotApplicable, plainly
from nbdebug.evidence import ActivationLook, Histogram, LayerLook, LayerSeries, Recording, TensorFacts
from nbdebug.exhibit import HistogramGrid
from nbdebug.report.draw import as_png
from nbdebug.show import page
from nbdebug.show.asking import gathered, recorded
from nbdebug.show.view import View

__all__ = ["ActivationView", "show_activations"]

FRAMES = 20  # moments of a training that are kept for the slider
COLUMNS = ("layer", "shape", "mean", "std", "zero", "dead", "saturated")


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

    def __init__(self, look: ActivationLook, says: str, frames: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.look, self._says, self._frames = look, says, frames

    @property
    def data(self) -> dict[str, Any]:
        """What the front end draws."""
        return {
            "says": self._says,
            "edges": [page.number(edge, 3) for edge in self.look.edges],
            "axis": self._axis,
            "layers": [_layer(layer) for layer in self.look.layers],
            "frames": self._frames,
        }

    @property
    def _axis(self) -> str:
        if self._frames is not None:
            return "One bin an octave, in both directions from 0."
        return "Linear near 0, logarithmic farther out." if self.look.is_log else ""

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
        return page.page(f"Activations: {self._says}", page.drawn(self.exhibit, "values of every layer", 640), table)

    @property
    def png(self) -> bytes:
        """The static picture."""
        return as_png(self.exhibit)

    def __repr__(self) -> str:
        """Say in one line what it is."""
        return f"<nbdebug activations: {self._says}>"

    def __str__(self) -> str:
        """Give the statistics of every layer as text."""
        return f"Activations: {self._says}\n{page.aligned(COLUMNS, self._rows())}"

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
            )
            for layer in self.look.layers
        ]


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
        "bad": facts.nan + facts.inf,
        "dead": page.number(layer.dead, 3),
        "saturated": page.number(layer.saturated, 3),
        "calls": layer.calls,
        "counts": list(layer.counts),
        "own": histogram_data(layer.own),
        "before": histogram_data(layer.before),
    }


def histogram_data(histogram: Histogram | None) -> dict[str, Any] | None:
    """Give a histogram as the front end takes it."""
    if histogram is None:
        return None
    low, high = page.number(histogram.low), page.number(histogram.high)
    return {"low": low, "high": high, "counts": list(histogram.counts)}


def _from_recording(run: Recording) -> tuple[ActivationLook, str, dict[str, Any]]:
    layers = [layer for layer in run.layers.values() if layer.histogram is not None and len(layer.histogram.steps)]
    if not layers:
        raise NotApplicable("nothing was recorded of the layers' outputs; let the watch see at least one training step")
    longest = max(layers, key=lambda layer: len(layer.histogram.steps) if layer.histogram is not None else 0)
    assert longest.histogram is not None
    whole = longest.histogram.steps
    chosen = np.unique(np.linspace(0, len(whole) - 1, min(FRAMES, len(whole))).round().astype(int))
    steps = whole[chosen]
    shares = np.stack([_at(layer, steps) for layer in layers], 1)  # moments × layers × bins
    scaled = np.rint(255 * shares / np.maximum(shares.max(2, keepdims=True), 1e-12)).astype(np.uint8)
    looks = tuple(_last(layer, scaled[-1, i]) for i, layer in enumerate(layers))
    look = ActivationLook(looks, tuple(longest.histogram.edges.tolist()), True, 0, True)
    frames = {"steps": [int(s) for s in steps], "shares": base64.b64encode(scaled.tobytes()).decode("ascii")}
    return look, f"{len(layers)} layers over {run.tally.steps} steps of {run.model}", frames


def _at(layer: LayerSeries, steps: np.ndarray) -> np.ndarray:
    """Give the layer's histogram at each of these steps, the newest one before it."""
    assert layer.histogram is not None
    rows = np.searchsorted(layer.histogram.steps, steps, side="right") - 1
    shares: np.ndarray = layer.histogram.shares[np.clip(rows, 0, len(layer.histogram.steps) - 1)]
    return shares


def _last(layer: LayerSeries, shares: np.ndarray) -> LayerLook:
    top, mean = layer.abs_max.last, layer.mean.last
    facts = TensorFacts((), "", mean=mean, std=layer.std.last, low=-top, high=top, zeros=layer.zeros.last)
    bad = layer.not_finite.last
    facts = replace(facts, nan=int(bad > 0), count=1)
    return LayerLook(layer.path, layer.module, facts, tuple(int(s) for s in shares), None)
