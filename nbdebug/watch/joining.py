"""Norms of sharded parameters: every process packs those of its pieces, and the first one puts them together.

The square of a norm is the sum of the squares of its pieces, so a few numbers of each process are enough, and no
process waits for another.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import torch

from nbdebug.evidence.recording import Recording
from nbdebug.setup.distributed.pieces import piece_of, pieces_in
from nbdebug.setup.distributed.rank_facts import RankFacts
from nbdebug.watch.recorder.series import ParameterSeries, Series

__all__ = ["FINAL", "RUNNING", "joined", "packed", "waited_everywhere"]

RUNNING, FINAL = 65_536, 1_048_576  # numbers that one process sends at most, during a training and at its end
QUANTITIES = ("gradient", "used", "weight", "update")
_Key: TypeAlias = tuple[int, int]  # the last step of a bucket, and how many steps it holds


def packed(recording: Recording, parameters: Sequence[tuple[str, torch.Tensor]], most: int) -> dict[str, Any]:
    """Return the newest norms of this process's pieces, as something that JSON can hold."""
    names = [name for name, _ in parameters]
    known = [recording.parameters.get(name) for name in names]
    keys = sorted({key for one in known if one is not None for key in _keys(one.gradient)})
    keys = keys[-max(most // max(len(QUANTITIES) * len(names), 1), 1) :]
    place = {key: row for row, key in enumerate(keys)}
    table = np.full((len(keys), len(QUANTITIES), len(names)), np.nan, np.float32)
    for column, (one, (_, parameter)) in enumerate(zip(known, parameters, strict=True)):
        if not piece_of(parameter).numel():  # there are more processes than rows
            table[:, :, column] = 0.0
        for row, quantity in enumerate(QUANTITIES):
            series = Series() if one is None else getattr(one, quantity)
            for key, value in zip(_keys(series), series.values, strict=True):
                if key in place:
                    table[place[key], row, column] = value
    return {
        "names": names,
        "keys": keys,
        "pieces": [pieces_in(parameter) for _, parameter in parameters],
        "bad": [_bad(one) for one in known],
        "table": base64.b64encode(table.tobytes()).decode("ascii"),
    }


def joined(recording: Recording, packs: Sequence[Mapping[str, Any]]) -> Recording:
    """Return the recording with the norms of whole parameters, at the steps that every process measured."""
    packs = [pack for pack in packs if pack["names"] == packs[0]["names"]]
    common = sorted(set.intersection(*({(int(s), int(c)) for s, c in pack["keys"]} for pack in packs)))
    if not common:
        return recording
    tables = np.stack([_table(pack, common) for pack in packs])  # processes, steps, quantities, parameters
    pieces = np.array(packs[0]["pieces"], np.float64)
    norms = {name: _together(tables[:, :, row], pieces) for row, name in enumerate(QUANTITIES[:3])}
    change = _together(tables[:, :, 3] * tables[:, :, 2], pieces)
    with np.errstate(divide="ignore", invalid="ignore"):
        norms["update"] = np.where(norms["weight"] > 0, change / norms["weight"], np.nan)
    parameters = {}
    for column, name in enumerate(packs[0]["names"]):
        one = recording.parameters.get(name)
        if one is not None:
            own: dict[str, Any] = {q: _series(getattr(one, q), common, norms[q][:, column]) for q in QUANTITIES}
            own["gradient"] = _with_bad(own["gradient"], [pack["bad"][column] for pack in packs])
            parameters[name] = replace(one, **own)
    totals = {q: np.sqrt(np.nansum(norms[q] ** 2, axis=1)) for q in ("gradient", "used")}
    return replace(
        recording,
        parameters={**recording.parameters, **parameters},
        gradient=_series(recording.gradient, common, totals["gradient"]),
        used=_series(recording.used, common, totals["used"]),
    )


def waited_everywhere(recording: Recording, ranks: Sequence[RankFacts]) -> Recording:
    """Return the recording in which a parameter waits for a gradient only where every piece of it does."""
    coverage = recording.coverage
    if coverage is None or not coverage.waiting:
        return recording
    kept = set(coverage.waiting).intersection(*(facts.waiting for facts in ranks[1:]))
    names = ("waiting", "waiting_zero", "waiting_moved")
    own: dict[str, Any] = {name: tuple(one for one in getattr(coverage, name) if one in kept) for name in names}
    return replace(recording, coverage=replace(coverage, **own))


def _keys(series: Series) -> list[_Key]:
    return list(zip(map(int, series.steps), map(int, series.counts), strict=True))


def _bad(one: ParameterSeries | None) -> list[int]:
    first = None if one is None else one.gradient.first_not_finite
    return [-1 if first is None else first, 0 if one is None else one.gradient.not_finite]


def _table(pack: Mapping[str, Any], common: Sequence[_Key]) -> np.ndarray:
    flat = np.frombuffer(base64.b64decode(pack["table"]), np.float32).astype(np.float64)
    table = flat.reshape(len(pack["keys"]), len(QUANTITIES), len(pack["names"]))
    place = {(int(s), int(c)): row for row, (s, c) in enumerate(pack["keys"])}
    return table[[place[key] for key in common]]


def _together(norms: np.ndarray, pieces: np.ndarray) -> np.ndarray:
    """Return the norms of the wholes; several processes may hold the same piece."""
    holders = np.isfinite(norms).sum(axis=0)
    squares = np.nansum(np.where(np.isfinite(norms), norms, 0.0) ** 2, axis=0)
    return np.where(holders > 0, np.sqrt(squares * pieces / np.maximum(holders, 1)), np.nan)


def _series(like: Series, common: Sequence[_Key], values: np.ndarray) -> Series:
    there = np.isfinite(values)
    steps, counts = (np.array(part, np.int64)[there] for part in zip(*common, strict=True))
    return Series(like.name, steps, values[there], values[there], values[there], counts, 0, None, counts)


def _with_bad(series: Series, bad: Sequence[Sequence[int]]) -> Series:
    firsts = [first for first, _ in bad if first >= 0]
    count = max((count for _, count in bad), default=0)
    return replace(series, not_finite=count, first_not_finite=min(firsts, default=None))
