"""What came in since the last flush, and the tracks that it goes into."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import psutil
import torch

from nbdebug.evidence.recording import Series
from nbdebug.watch.history import Track
from nbdebug.watch.sample import LayerName, ParameterName, Sample, as_number
from nbdebug.watch.tables import OutputTable, WeightTable

__all__ = ["Store", "series_of"]

TIMES = ("data", "forward", "backward", "step")
_PROCESS = psutil.Process()
MOST_SCALARS = 200  # names that may be logged


class Store:
    """Pending rows and samples, and the bounded tracks behind them; one lock, because a widget may read meanwhile."""

    def __init__(self, layers: Sequence[LayerName], parameters: Sequence[ParameterName]) -> None:
        self.lock = threading.RLock()
        self.scalars: dict[str, Track] = {}
        self.rates: dict[str, Track] = {}
        self.times = Track(TIMES)
        self.extras = Track(("training", "graphs"))
        self.memory, self.scale = Track(["memory"]), Track(["scale"])
        self.outputs, self.weights = OutputTable(layers), WeightTable(parameters)
        self.rows: list[tuple[int, dict[str, Any], tuple[float, ...], float, float]] = []
        self.logged: list[tuple[int, dict[str, Any]]] = []
        self.rate_rows: list[tuple[int, dict[str, float]]] = []
        self.samples: list[Sample] = []
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
            self.outputs.put([sample for sample in samples if sample.outputs])
            self.weights.put(samples)

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

    @property
    def nbytes(self) -> int:
        """The bytes that the history holds."""
        tracks = [self.times, self.extras, self.memory, self.scale, *self.scalars.values(), *self.rates.values()]
        return sum(track.nbytes for track in tracks) + self.outputs.nbytes + self.weights.nbytes


def series_of(tracks: Mapping[str, Track]) -> dict[str, Series]:
    """Give the only column of each track."""
    return {name: track.series()[name] for name, track in tracks.items()}
