"""The tables of layers and parameters: samples of several steps are reduced together and written into tracks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from nbdebug.watch.recorder.history import Track, Waterfall, capacity_for
from nbdebug.watch.recorder.norms import together
from nbdebug.watch.recorder.reducing import (
    BUCKETS,
    STATISTICS,
    change_of,
    infinite,
    octave_counts,
    squares_of,
    statistics_of,
)
from nbdebug.watch.recorder.sample import NO_SCALE, LayerName, ParameterName, Sample, as_number
from nbdebug.watch.recorder.sampling import Block
from nbdebug.watch.recorder.series import LayerSeries, ParameterSeries, Series

__all__ = ["OutputTable", "Table", "WeightTable"]

_Alike: TypeAlias = tuple[list[int], list[int], list[np.ndarray]]  # steps, tensors, and their rows at each step
TOGETHER = 65_536  # elements that are reduced at a time: few operations, over what still fits into the cache


class Table:
    """Several quantities of the same things, measured at the same steps: one track, because each costs by the call."""

    def __init__(self, quantities: Sequence[str], names: Sequence[str]) -> None:
        self.quantities, self.names = tuple(quantities), tuple(names)
        columns = [name for _ in quantities for name in names]
        self._track = Track(columns, capacity_for(len(self.names)))

    def extend(self, samples: Sequence[Sample], values: np.ndarray, missing: np.ndarray) -> None:
        """Add the values of these steps: steps by quantities by names."""
        shape = (len(samples), len(self.quantities) * len(self.names))
        self._track.extend(np.array([s.step for s in samples]), values.reshape(shape), missing.reshape(shape))

    def series(self) -> dict[str, dict[str, Series]]:
        """Return every quantity of everything, by name."""
        columns = iter(self._track.columns())
        found: dict[str, dict[str, Series]] = {name: {} for name in self.names}
        for quantity in self.quantities:
            for name in self.names:
                found[name][quantity] = next(columns)
        return found

    @property
    def nbytes(self) -> int:
        """The bytes that are held now."""
        return self._track.nbytes


class OutputTable:
    """What the layers gave: one column a layer."""

    def __init__(self, layers: Sequence[LayerName]) -> None:
        self.layers = tuple(layers)
        self.table = Table(STATISTICS, [layer.path for layer in layers])
        self.waterfall = Waterfall(len(self.layers), BUCKETS)
        self._seen = np.zeros(len(self.layers), bool)

    def put(self, samples: list[Sample]) -> None:
        """Reduce the outputs of all these steps; a module that was called twice has the mean of its calls."""
        if not samples:
            return
        groups = _alike([sample.outputs for sample in samples])
        shape = (len(samples), len(self.layers), len(STATISTICS))
        total, missing = (_once if _is_once(groups) else _several_times)(groups, shape)
        self._seen |= ~missing.all(axis=0)
        self.table.extend(samples, total.transpose(0, 2, 1), np.repeat(missing[:, None], len(STATISTICS), axis=1))
        self._put_histogram(samples[-1])

    def _put_histogram(self, sample: Sample) -> None:
        counts = np.zeros((len(self.layers), BUCKETS))
        for block in sample.outputs:
            found = octave_counts(block.rows())
            if len(set(block.indices)) == len(block.indices):
                counts[list(block.indices)] += found
            else:
                np.add.at(counts, list(block.indices), found)
        self.waterfall.append(sample.step, counts)

    def series(self) -> dict[str, LayerSeries]:
        """Return every layer that was measured."""
        found = self.table.series()
        return {
            layer.path: LayerSeries(
                layer.path, layer.module, **found[layer.path], histogram=self.waterfall.layer(index)
            )
            for index, layer in enumerate(self.layers)
            if len(found[layer.path]["mean"])
        }

    def seen(self) -> list[str]:
        """Name the layers that were measured."""
        return [layer.path for layer, was_seen in zip(self.layers, self._seen, strict=True) if was_seen]

    @property
    def nbytes(self) -> int:
        """The bytes that are held now."""
        return self.table.nbytes + self.waterfall.nbytes


class WeightTable:
    """Gradients, weights and their changes: one column a parameter."""

    def __init__(self, parameters: Sequence[ParameterName]) -> None:
        self.parameters = tuple(parameters)
        names = [parameter.name for parameter in parameters]
        self.gradients, self.changes = Table(("gradient", "used"), names), Table(("weight", "update"), names)
        self.norms = Track(("gradient", "used"))  # of all together
        self.clipped = self.compared = 0
        self._roots = np.sqrt([parameter.numel for parameter in parameters])

    def put(self, samples: list[Sample]) -> None:
        """Write down the gradients and the changes of these steps."""
        self._put_gradients([sample for sample in samples if sample.used is not None])
        self._put_changes([sample for sample in samples if sample.after])

    def _put_gradients(self, samples: list[Sample]) -> None:
        if not samples:
            return
        shape = (len(samples), len(self.parameters))
        used = np.full(shape, np.nan)
        for numbers, own in _by_optimizer(samples):
            used[np.ix_(numbers, own)] = together([samples[number].used for number in numbers])
        raw = used.copy()
        for number, sample in enumerate(samples):
            if sample.used_scale is not NO_SCALE:
                used[number] /= as_number(sample.used_scale)
                raw[number] = used[number]
            if sample.gradients is not None and (
                sample.gradients is not sample.used or sample.scale is not sample.used_scale
            ):
                raw[number, sample.places] = sample.gradients.numpy() / as_number(sample.scale)
        totals = np.sqrt(np.stack([np.nansum(raw**2, axis=1), np.nansum(used**2, axis=1)], axis=1))
        compared = np.array([sample.gradients is not None for sample in samples])
        self.compared += int(compared.sum())
        self.clipped += int((compared & (totals[:, 1] < 0.99 * totals[:, 0])).sum())
        self.norms.extend(np.array([sample.step for sample in samples]), totals)
        both = np.stack([raw, used], axis=1)
        self.gradients.extend(samples, both, np.isnan(both))

    def _put_changes(self, samples: list[Sample]) -> None:
        if not samples:
            return
        found = np.full((len(samples), 2, len(self.parameters)), np.nan)
        for numbers, own in _by_optimizer(samples):
            old, new = ([getattr(samples[n], when) for n in numbers] for when in ("before", "after"))
            for (places, indices, before), (_, _, after) in zip(_alike(old), _alike(new), strict=True):
                cells = np.ix_(numbers[places], own[indices])
                pairs = infinite(_reduced(squares_of, before, after)).reshape(len(places), len(indices), 2)
                found[:, 0][cells], found[:, 1][cells] = pairs[:, :, 0], pairs[:, :, 1]
        found[:, 0], found[:, 1] = change_of(found[:, 0], found[:, 1])
        found[:, 0] *= self._roots
        self.changes.extend(samples, found, np.isnan(found))

    def series(self) -> dict[str, ParameterSeries]:
        """Return every parameter that was measured."""
        gradients, changes = self.gradients.series(), self.changes.series()
        found = {p: gradients[p.name] | changes[p.name] for p in self.parameters}
        return {
            p.name: ParameterSeries(p.name, p.layer, p.shape, **series)
            for p, series in found.items()
            if any(map(len, series.values()))
        }

    @property
    def nbytes(self) -> int:
        """The bytes that are held now."""
        return self.norms.nbytes + self.gradients.nbytes + self.changes.nbytes


def _is_once(groups: list[_Alike]) -> bool:
    """Whether each layer was called at most once at each step."""
    named = [index for _, indices, _ in groups for index in indices]
    return len(set(named)) == len(named) and all(len(set(places)) == len(places) for places, _, _ in groups)


def _once(groups: list[_Alike], shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return the statistics of layers of which each was called once, and which are missing at which step."""
    total, missing = np.zeros(shape), np.ones(shape[:2], bool)
    for places, indices, rows in groups:
        cells = np.ix_(places, indices)
        total[cells] = _reduced(statistics_of, rows).reshape(len(rows), len(indices), len(STATISTICS))
        missing[cells] = False
    return total, missing


def _several_times(groups: list[_Alike], shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Do the same where some may have been called more than once: the mean of the calls, and the largest value."""
    total, calls, top = np.zeros(shape), np.zeros(shape[:2]), np.zeros(shape[:2])
    for places, indices, rows in groups:
        found = _reduced(statistics_of, rows).reshape(len(rows), len(indices), len(STATISTICS))
        for number, place in enumerate(places):
            np.add.at(total[place], indices, found[number])
            np.add.at(calls[place], indices, 1)
            np.maximum.at(top[place], indices, found[number, :, 2])
    total /= np.maximum(calls, 1)[:, :, None]
    total[:, :, 2] = top
    return total, calls == 0


def _by_optimizer(samples: list[Sample]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the numbers of the samples of each optimizer, and the places of its parameters."""
    every = {id(sample.places): sample.places for sample in samples}
    if len(every) == 1:
        return [(np.arange(len(samples)), samples[0].places)]
    return [(np.array([n for n, sample in enumerate(samples) if sample.places is own]), own) for own in every.values()]


def _alike(samples: list[list[Block]]) -> list[_Alike]:
    """Join blocks that hold the same tensors: the places of their steps, the tensors, and the rows of each step."""
    groups: dict[tuple[int, int], _Alike] = {}
    for place, blocks in enumerate(samples):
        for block in blocks:
            # One and the same tuple where nothing has changed: to hash a long one takes longer than to find it.
            group = groups.get((id(block.indices), block.size))
            if group is None:
                group = groups[id(block.indices), block.size] = ([], list(block.indices), [])
            group[0].append(place)
            group[2].append(block.rows())
    return list(groups.values())


def _reduced(reduce: Callable[..., np.ndarray], *parts: list[np.ndarray]) -> np.ndarray:
    """Reduce the rows of several steps at a time."""
    count = max(1, TOGETHER // max(parts[0][0].size, 1))
    return np.concatenate(
        [
            reduce(*(np.concatenate(rows[start : start + count]) for rows in parts))
            for start in range(0, len(parts[0]), count)
        ]
    )
