"""What came in since the last flush, and the tracks that it goes into."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import psutil
import torch

from nbdebug.evidence.recording import LayerSeries, ParameterSeries, Series
from nbdebug.watch.history import Track, Waterfall
from nbdebug.watch.reducing import BUCKETS, STATISTICS, layer_statistics, octave_counts, weight_statistics
from nbdebug.watch.sampling import Flat, Norms

__all__ = ["LayerName", "ParameterName", "Sample", "Store", "as_number", "series_of"]

TIMES = ("data", "forward", "backward", "step")
MOST_SCALARS = 200  # names that may be logged


@dataclass(frozen=True)
class LayerName:
    """A module that is looked at."""

    path: str
    module: str


@dataclass(frozen=True)
class ParameterName:
    """A parameter that is looked at."""

    name: str
    layer: str
    shape: tuple[int, ...]
    numel: int


@dataclass
class Sample:
    """What was measured around one step of one optimizer, not yet reduced."""

    step: int
    places: list[int]  # of the optimizer's parameters among all
    outputs: list[Flat] = field(default_factory=list)
    gradients: Norms | None = None
    used: Norms | None = None
    scale: torch.Tensor | float = 1.0
    used_scale: torch.Tensor | float = 1.0
    before: list[Flat] = field(default_factory=list)
    after: list[Flat] = field(default_factory=list)


class Store:
    """Pending rows and samples, and the bounded tracks behind them; one lock, because a widget may read meanwhile."""

    def __init__(self, layers: Sequence[LayerName], parameters: Sequence[ParameterName]) -> None:
        self.layers, self.parameters = tuple(layers), tuple(parameters)
        self.lock = threading.RLock()
        self.scalars: dict[str, Track] = {}
        self.rates: dict[str, Track] = {}
        self.times = Track(TIMES)
        self.extras = Track(("training", "graphs"))
        self.memory, self.scale = Track(["memory"]), Track(["scale"])
        self.norms = Track(("gradient", "used"))
        self.statistics = {name: Track([layer.path for layer in layers]) for name in STATISTICS}
        self.waterfall = Waterfall(len(self.layers), BUCKETS)
        names = [parameter.name for parameter in parameters]
        self.weights = {name: Track(names) for name in ("gradient", "used", "weight", "update")}
        self.rows: list[tuple[int, dict[str, Any], tuple[float, ...], float, float]] = []
        self.logged: list[tuple[int, dict[str, Any]]] = []
        self.rate_rows: list[tuple[int, dict[str, float]]] = []
        self.samples: list[Sample] = []
        self.clipped = self.compared = 0
        self.memory_step = -1
        self._last: dict[int, int] = {}

    def put_memory(self, step: int, scale: torch.Tensor | None) -> None:
        """Note how much memory the process and the device hold, and the factor of a GradScaler."""
        used = float(psutil.Process().memory_info().rss)
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            used += torch.cuda.memory_allocated()
        with self.lock:
            self.memory_step = step
            self.memory.append(step, used)
            if scale is not None:
                self.scale.append(step, as_number(scale))

    def flush(self) -> None:
        """Move everything that is pending into the tracks."""
        with self.lock:
            rows, self.rows = self.rows, []
            logged, self.logged = self.logged, []
            rates, self.rate_rows = self.rate_rows, []
            samples, self.samples = self.samples, []
            if rows:
                steps = np.array([row[0] for row in rows])
                self.times.extend(steps, np.array([row[2] for row in rows]))
                self.extras.extend(steps, np.array([row[3:] for row in rows]))
            self._put_named(self.scalars, [(row[0], row[1]) for row in rows] + logged)
            self._put_named(self.rates, rates)
            self._put_samples(samples)

    def _put_named(self, tracks: dict[str, Track], rows: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        values: dict[str, dict[int, float]] = {}
        for step, named in rows:
            for name, value in named.items():
                values.setdefault(name, {})[step] = as_number(value)  # what was logged wins
        for name, found in values.items():
            if name not in tracks and len(tracks) < MOST_SCALARS:
                tracks[name] = Track([name])
            if name in tracks:
                new = sorted(step for step in found if step > self._last.get(id(tracks[name]), -1))  # one value a step
                tracks[name].extend(np.array(new, np.int64), np.array([found[step] for step in new])[:, None])
                self._last[id(tracks[name])] = max([*new[-1:], self._last.get(id(tracks[name]), -1)])

    def _put_samples(self, samples: list[Sample]) -> None:
        self._put_outputs([sample for sample in samples if sample.outputs])
        for sample in samples:
            self._put_gradients(sample)
            self._put_weights(sample)

    def _put_outputs(self, samples: list[Sample]) -> None:
        """Reduce the outputs of steps with the same layout together."""
        start = 0
        for end in range(1, len(samples) + 1):
            if end == len(samples) or not _same_layout(samples[start], samples[end]):
                self._put_alike(samples[start:end])
                start = end
        if samples:
            counts = [octave_counts(f.layout, f.numpy(), len(self.layers)) for f in samples[-1].outputs]
            self.waterfall.append(samples[-1].step, np.sum(counts, axis=0))

    def _put_alike(self, samples: list[Sample]) -> None:
        found = np.full((len(samples), len(STATISTICS), len(self.layers)), np.nan)
        for number, flat in enumerate(samples[0].outputs):
            rows = np.stack([sample.outputs[number].numpy() for sample in samples])
            part = layer_statistics(flat.layout, rows, len(self.layers))
            found = np.where(np.isnan(part), found, part)
        steps = np.array([sample.step for sample in samples])
        for number, name in enumerate(STATISTICS):
            self.statistics[name].extend(steps, found[:, number], np.isnan(found[:, number]))

    def _put_gradients(self, sample: Sample) -> None:
        if sample.used is None:
            return
        used = sample.used.numpy() / as_number(sample.used_scale)
        raw = used if sample.gradients is None else sample.gradients.numpy() / as_number(sample.scale)
        rows = {"used": used, "gradient": raw}
        totals = {name: float(np.sqrt(np.nansum(row**2))) for name, row in rows.items()}
        self.norms.append(sample.step, totals["gradient"], totals["used"])
        if sample.gradients is not None:
            self.compared += 1
            self.clipped += totals["used"] < 0.99 * totals["gradient"]
        for name, row in rows.items():
            self._put_row(name, sample.step, sample.places, row)

    def _put_weights(self, sample: Sample) -> None:
        numels = [self.parameters[place].numel for place in sample.places]
        norms, ratios = np.full(len(numels), np.nan), np.full(len(numels), np.nan)
        for before, after in zip(sample.before, sample.after, strict=False):
            if before.layout == after.layout:
                index, norm, ratio = weight_statistics(before.layout, before.numpy(), after.numpy(), numels)
                norms[index], ratios[index] = norm, ratio
        if sample.after:
            self._put_row("weight", sample.step, sample.places, norms)
            self._put_row("update", sample.step, sample.places, ratios)

    def _put_row(self, name: str, step: int, places: list[int], values: np.ndarray) -> None:
        row = np.full((1, len(self.parameters)), np.nan)
        row[0, places] = values
        self.weights[name].extend(np.array([step]), row, np.isnan(row))

    def layer_series(self) -> dict[str, LayerSeries]:
        """Give every layer that was measured."""
        series = {name: track.series() for name, track in self.statistics.items()}
        return {
            layer.path: LayerSeries(
                layer.path,
                layer.module,
                **{name: series[name][layer.path] for name in STATISTICS},
                histogram=self.waterfall.layer(index),
            )
            for index, layer in enumerate(self.layers)
            if len(series["mean"][layer.path])
        }

    def parameter_series(self) -> dict[str, ParameterSeries]:
        """Give every parameter that was measured."""
        series = {name: track.series() for name, track in self.weights.items()}
        return {
            p.name: ParameterSeries(p.name, p.layer, p.shape, **{name: series[name][p.name] for name in self.weights})
            for p in self.parameters
            if any(len(series[name][p.name]) for name in self.weights)
        }

    @property
    def nbytes(self) -> int:
        """The bytes that the history holds."""
        tables = [self.times, self.extras, self.memory, self.scale, self.norms]
        tracks = [*self.scalars.values(), *self.rates.values(), *self.statistics.values(), *self.weights.values()]
        return sum(track.nbytes for track in (*tables, *tracks)) + self.waterfall.nbytes


def series_of(tracks: Mapping[str, Track]) -> dict[str, Series]:
    """Give the only column of each track."""
    return {name: track.series()[name] for name, track in tracks.items()}


def _same_layout(first: Sample, second: Sample) -> bool:
    return [flat.layout for flat in first.outputs] == [flat.layout for flat in second.outputs]


def as_number(value: Any) -> float:
    """Read a tensor, an array or a number as a float; what is none of them is NaN."""
    try:
        if isinstance(value, torch.Tensor):
            value = value.detach()
            return float(value) if value.numel() == 1 else float(value.double().mean())
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        return float("nan")
