"""What came in since the last flush, and the tracks that it goes into."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import psutil
import torch

from nbdebug.evidence.recording import LayerSeries, ParameterSeries, Series
from nbdebug.watch.history import Track, Waterfall
from nbdebug.watch.reducing import BUCKETS, STATISTICS, change_of, octave_counts, statistics_of
from nbdebug.watch.sample import LayerName, ParameterName, Sample
from nbdebug.watch.sampling import Block

__all__ = ["Store", "as_number", "series_of"]

TIMES = ("data", "forward", "backward", "step")
_PROCESS = psutil.Process()
MOST_SCALARS = 200  # names that may be logged


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
        used = float(_PROCESS.memory_info().rss)
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
        if samples:
            self._put_outputs([sample for sample in samples if sample.outputs])
            self._put_gradients([sample for sample in samples if sample.used is not None])
            self._put_weights([sample for sample in samples if sample.after])

    def _put_outputs(self, samples: list[Sample]) -> None:
        """Reduce the outputs of all these steps; a module that was called twice has the mean of its calls."""
        if not samples:
            return
        shape = (len(samples), len(self.layers), len(STATISTICS))
        total, calls, top = np.zeros(shape), np.zeros(shape[:2]), np.zeros(shape[:2])
        for places, indices, rows in _alike([sample.outputs for sample in samples]):
            found = np.stack([statistics_of(part) for part in rows])  # one by one: they stay in the cache
            if len(set(indices)) == len(indices):
                cells = np.ix_(places, indices)
                total[cells] += found
                calls[cells] += 1
                top[cells] = np.maximum(top[cells], found[:, :, 2])
                continue
            for number, place in enumerate(places):
                np.add.at(total[place], indices, found[number])
                np.add.at(calls[place], indices, 1)
                np.maximum.at(top[place], indices, found[number, :, 2])
        missing = calls == 0
        total /= np.maximum(calls, 1)[:, :, None]
        total[:, :, 2] = top
        steps = np.array([sample.step for sample in samples])
        for number, name in enumerate(STATISTICS):
            self.statistics[name].extend(steps, total[:, :, number], missing)
        self._put_histogram(samples[-1])

    def _put_histogram(self, sample: Sample) -> None:
        counts = np.zeros((len(self.layers), BUCKETS))
        for block in sample.outputs:
            np.add.at(counts, list(block.indices), octave_counts(block.rows()))
        self.waterfall.append(sample.step, counts)

    def _put_gradients(self, samples: list[Sample]) -> None:
        if not samples:
            return
        shape = (len(samples), len(self.parameters))
        raw, used = np.full(shape, np.nan), np.full(shape, np.nan)
        for number, sample in enumerate(samples):
            assert sample.used is not None
            used[number, sample.places] = sample.used.numpy() / as_number(sample.used_scale)
            raw[number] = used[number]
            if sample.gradients is not None:
                raw[number, sample.places] = sample.gradients.numpy() / as_number(sample.scale)
        totals = np.sqrt(np.stack([np.nansum(raw**2, axis=1), np.nansum(used**2, axis=1)], axis=1))
        compared = np.array([sample.gradients is not None for sample in samples])
        self.compared += int(compared.sum())
        self.clipped += int((compared & (totals[:, 1] < 0.99 * totals[:, 0])).sum())
        steps = np.array([sample.step for sample in samples])
        self.norms.extend(steps, totals)
        self.weights["gradient"].extend(steps, raw, np.isnan(raw))
        self.weights["used"].extend(steps, used, np.isnan(used))

    def _put_weights(self, samples: list[Sample]) -> None:
        if not samples:
            return
        shape = (len(samples), len(self.parameters))
        norms, ratios = np.full(shape, np.nan), np.full(shape, np.nan)
        sizes = np.sqrt([parameter.numel for parameter in self.parameters])
        after = _alike([sample.after for sample in samples])
        for (places, indices, old), (_, _, new) in zip(_alike([s.before for s in samples]), after, strict=True):
            for place, first, second in zip(places, old, new, strict=True):
                own = [samples[place].places[index] for index in indices]
                norm, ratios[place, own] = change_of(first, second)
                norms[place, own] = norm * sizes[own]
        steps = np.array([sample.step for sample in samples])
        self.weights["weight"].extend(steps, norms, np.isnan(norms))
        self.weights["update"].extend(steps, ratios, np.isnan(ratios))

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


def _alike(samples: list[list[Block]]) -> list[tuple[list[int], list[int], list[np.ndarray]]]:
    """Join blocks that hold the same tensors: the places of their steps, the tensors, and the rows of each step."""
    groups: dict[tuple[Any, ...], tuple[list[int], list[np.ndarray]]] = {}
    for place, blocks in enumerate(samples):
        for block in blocks:
            places, rows = groups.setdefault((block.indices, block.size), ([], []))
            places.append(place)
            rows.append(block.rows())
    return [(places, list(key[0]), rows) for key, (places, rows) in groups.items()]


def as_number(value: Any) -> float:
    """Read a tensor, an array or a number as a float; what is none of them is NaN."""
    try:
        if isinstance(value, torch.Tensor):
            value = value.detach()
            return float(value) if value.numel() == 1 else float(value.double().mean())
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        return float("nan")
