"""What came in since the last flush, and the tracks that it goes into."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import psutil
import torch

from nbdebug.watch.recorder.history import Track
from nbdebug.watch.recorder.sample import LayerName, ParameterName, Sample, as_number
from nbdebug.watch.recorder.series import Series
from nbdebug.watch.recorder.tables import OutputTable, WeightTable

__all__ = ["MOST_NAMES", "Store", "series_of"]

TIMES = ("data", "forward", "backward", "step")
Row: TypeAlias = tuple[int, Any, float, float, float, float, bool, int]  # step, loss, times, is training, graphs
_PROCESS = psutil.Process()
MOST_NAMES = 200  # that may be logged; as many again may come by themselves, as losses of several optimizers do
TOLD = 3  # of the names that were left out
PENDING = 4096  # calls of `log` that may wait: an evaluation logs without steps, which flush otherwise


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
        self.rows: list[Row] = []
        self.logged: list[tuple[int, dict[str, Any]]] = []
        self.rate_rows: list[tuple[int, dict[str, float]]] = []
        self.samples: list[Sample] = []
        self.memory_step = -1
        self.left_out: list[str] = []
        self._logged_step = 0
        self._loss_logged: set[int] = set()  # the newest steps whose loss was logged, which counts and not the one seen

    def log(self, step: int, values: dict[str, Any]) -> None:
        """Take numbers of the user's in; their steps never go back, so that the last one of a step is kept."""
        with self.lock:
            self._logged_step = max(step, self._logged_step)
            self.logged.append((self._logged_step, values))
            if "loss" in values:
                self._loss_logged.add(self._logged_step)
            if len(self.logged) >= PENDING:
                self.flush()

    def leave_out(self, name: str) -> None:
        """Remember that there was no room for this name, as far as that is told."""
        if name not in self.left_out and len(self.left_out) <= TOLD:
            self.left_out.append(name)

    @property
    def lost(self) -> str:
        """Say in a sentence what there was no room for; nothing where there was room for all."""
        if not self.left_out:
            return ""
        names = ", ".join(self.left_out[:TOLD]) + (" and others" if len(self.left_out) > TOLD else "")
        return f"At most {MOST_NAMES} names are recorded; omitted: {names}."

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
                values = np.array([row[2:] for row in rows], np.float64)
                self.times.extend(steps, values[:, : len(TIMES)])
                self.extras.extend(steps, values[:, len(TIMES) :])
            known = self._loss_logged
            losses = [(row[0], {"loss": row[1]}) for row in rows if row[1] is not None and row[0] not in known]
            if rows and known:
                self._loss_logged = {step for step in known if step > rows[-1][0]}
            self._put_named(self.scalars, losses + logged)
            self._put_named(self.rates, rates)
            self.outputs.put([sample for sample in samples if sample.outputs])
            self.weights.put(samples)

    def _put_named(self, tracks: dict[str, Track], rows: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        values: dict[str, dict[int, float]] = {}
        for step, named in rows:
            for name, value in named.items():
                values.setdefault(name, {})[step] = as_number(value)  # what was logged wins
        for name, found in values.items():
            if name not in tracks:
                if len(tracks) >= 2 * MOST_NAMES:
                    self.leave_out(name)
                    continue
                tracks[name] = Track([name])
            track = tracks[name]
            if track.last_step in found:  # flushed before the step was over
                track.take_back()
            new = sorted(step for step in found if step > track.last_step)  # one value a step
            track.extend(np.array(new, np.int64), np.array([found[step] for step in new])[:, None])

    @property
    def nbytes(self) -> int:
        """The bytes that the history holds."""
        tracks = [self.times, self.extras, self.memory, self.scale, *self.scalars.values(), *self.rates.values()]
        return sum(track.nbytes for track in tracks) + self.outputs.nbytes + self.weights.nbytes


def series_of(tracks: Mapping[str, Track]) -> dict[str, Series]:
    """Return the only column of each track."""
    return {name: track.series()[name] for name, track in tracks.items()}
