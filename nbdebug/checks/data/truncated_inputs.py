"""Input values were truncated to integers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import Subset

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.loader_sweep import LoaderSweep
from nbdebug.evidence.loader_sweep_tally import PartFacts
from nbdebug.setup import Batch, Setup
from nbdebug.setup.nested import leaves, name_of
from nbdebug.setup.tensor_memory import array_of
from nbdebug.setup.user_code import required_user_code

__all__ = ["StoredValues", "ValueLoss", "stored_values", "truncated_inputs"]


@dataclass(frozen=True)
class ValueLoss:
    """One input on its way from where it is stored to the batch: how it was cut down, if it was.

    `how` is "" (nothing lost), "cast" (the part behind the decimal point is gone) or "division" (whole numbers divided
    by their largest, without a remainder). `stage` is where: reading or collating.
    """

    name: str
    how: str = ""
    stage: str = ""
    stored_as: str = ""
    stored_levels: int = 0
    given_levels: int = 0
    stored_high: float = math.nan


@dataclass(frozen=True)
class StoredValues:
    """The inputs as the data set holds and gives them, compared with what is in the batch."""

    compared: int
    parts: tuple[ValueLoss, ...] = ()


SAMPLES = 48
LEVELS = 8  # fewer different values than that may be meant


@probe
def stored_values(setup: Setup) -> StoredValues:
    """Trace values from the dataset's arrays into the batch."""
    feed = setup.feed
    dataset, total = feed.dataset, feed.total
    if dataset is None or not total or feed.gives_whole_batches:
        raise NotApplicable("the samples cannot be loaded by index, so they cannot be compared with the stored values")
    indices = torch.randperm(total)[:SAMPLES].tolist() if total <= 10_000_000 else list(range(SAMPLES))
    samples, batch = _read(setup, dataset, indices)
    given = {name: _numbers(tensor) for name, tensor in batch.inputs.items() if tensor.shape[:1] == (len(samples),)}
    losses = []
    for name, values in given.items():
        raw = _by_name(samples, name)
        loss = _compare(name, raw, values, "collating") if raw is not None else None
        stored = _stored(dataset, indices, values.shape[1]) if loss is None else []
        found = [_compare(name, held, values, "reading") for held in stored]
        losses.append(loss or next((f for f in found if f is not None), None) or ValueLoss(name))
    return StoredValues(len(samples), tuple(losses))


def _read(setup: Setup, dataset: Any, indices: list[int]) -> tuple[list[Any], Batch]:
    with required_user_code("some samples cannot be loaded ({kind})", passing=()):
        samples = [dataset[i] for i in indices]
        return samples, setup.wrap(setup.feed.collate(samples))


def _numbers(value: Any) -> np.ndarray:
    """Return samples × values as float64."""
    tensor = value.detach().cpu() if isinstance(value, torch.Tensor) else torch.as_tensor(np.asarray(value))
    tensor = tensor.to_dense() if tensor.layout is not torch.strided else tensor
    return array_of(tensor.reshape(len(tensor), -1).double()) if not tensor.is_complex() else np.zeros((0, 0))


def _by_name(samples: list[Any], name: str) -> np.ndarray | None:
    """Find the same part in the samples before they were put together."""
    parts = [{name_of(path): leaf for path, leaf in leaves(sample)}.get(name) for sample in samples]
    if any(not isinstance(part, (torch.Tensor, np.ndarray, int, float)) for part in parts):
        return None
    try:
        return _numbers(np.stack([np.asarray(part, dtype=np.float64).ravel() for part in parts]))
    except (ValueError, TypeError, RuntimeError):
        return None


def _stored(dataset: Any, indices: list[int], width: int) -> list[np.ndarray]:
    """Return the rows of every array of the data set that has as many values a sample as the batch."""
    while isinstance(dataset, Subset):
        indices, dataset = [int(dataset.indices[i]) for i in indices], dataset.dataset
    held: list[Any] = []
    for value in vars(dataset).values() if hasattr(dataset, "__dict__") else ():
        held += value if isinstance(value, (list, tuple)) and len(value) < 10 else [value]
    found = []
    for array in held:
        if isinstance(array, (torch.Tensor, np.ndarray)) and array.ndim and len(array) == len(dataset):
            rows = array[indices]
            if isinstance(rows, torch.Tensor) or rows.dtype.kind in "biuf":
                rows = _numbers(rows)
                found += [rows] if rows.shape[1] == width else []
    return found


def _compare(name: str, stored: np.ndarray, given: np.ndarray, stage: str) -> ValueLoss | None:
    """Say how values were lost, by redoing the usual mistakes on what was stored."""
    if stored.shape != given.shape or not np.isfinite(stored).all() or not np.isfinite(given).all():
        return None
    levels = len(np.unique(stored))
    if levels < LEVELS or not (given == np.round(given)).all() or np.array_equal(stored, given):
        return None
    high = float(np.abs(stored).max())
    how = ""
    if (stored != np.round(stored)).mean() > 0.05 and np.array_equal(given, np.trunc(stored)):
        how = "cast"
    elif any(np.array_equal(given, stored // d) for d in {high, 255.0, 256.0} if LEVELS < d <= high + 1):
        how = "division"
    fraction = "floats" if (stored != np.round(stored)).any() else "integers"
    return ValueLoss(name, how, stage, fraction, levels, len(np.unique(given)), high) if how else None


HOW = {
    "cast": "truncated by a cast to an integer dtype",
    "division": "truncated by an integer division by the maximum",
}


@check(explains=("constant-inputs", "duplicate-samples", "labels-unrelated-to-inputs", "worse-than-baseline"))
def truncated_inputs(
    sweep: LoaderSweep,
    stored: StoredValues | None,
    *,
    blank: float = 0.5,  # fraction of samples that are all zero; our choice
    bell: float = 0.6,  # the integers between -1 and 1 hold 68 % of a normal distribution
    least: int = 16,  # samples; our choice
    rows: int = 100,  # samples, to compare columns with a normal distribution; our choice
    zeros: float = 0.5,  # at least; truncated, a standard normal has 68 % zeros
    center: float = 0.3,  # distance of the mean from 0, at most; our choice
    std_least: float = 0.3,  # standard deviation; truncated, a standard normal has 0.68; our choice
    std_most: float = 1.1,  # standard deviation; our choice
    tails_least: float = 0.005,  # share of values from 2 on; a standard normal has 4.6 %; our choice
    tails_most: float = 0.1,  # share of values from 2 on; our choice
) -> Iterator[Finding]:
    """Input values were truncated by an integer dtype or an integer division.

    nbdebug follows the values of some samples from the arrays that the dataset stores, through its `__getitem__`, into
    the batch, and reproduces the usual mistakes on them: a cast that drops fractions, an integer division by 255. Where
    nothing is stored it looks for what such a mistake leaves behind: columns with mean 0 and standard deviation 1 that
    hold only integers, or samples that are all zero.

    Why it matters: an image in [0, 1] cast to an integer is black. Nothing fails, and nothing can be learned.

    What to try: convert to float before scaling, `x.float() / 255`, and look for `.long()`, `.int()`, `astype(int)`,
    `//` and for arrays created with an integer dtype.
    """
    sweep.require(least)
    normal = _Normal(zeros, center, (std_least, std_most), (tails_least, tails_most))
    known = {part.name: part for part in stored.parts} if stored is not None else {}
    for part in sweep.inputs:
        loss = known.get(part.name)
        if loss is not None and loss.how:
            yield _truncated_while_loading(part, loss)
        elif part.whole and part.varies and part.width > 1:
            standardized = _looks_standardized(part, rows, normal)
            yield from _looks_truncated(part, sweep, blank, standardized if standardized > bell else 0.0)


def _truncated_while_loading(part: PartFacts, loss: ValueLoss) -> Finding:
    return Finding(
        f"`{part.name}` has {loss.given_levels} distinct values in the batch but {loss.stored_levels} in the dataset "
        f"({loss.stored_as}, up to {loss.stored_high:g}): {HOW[loss.how]} while {loss.stage}.",
        where=part.name,
        evidence={
            "levels stored": loss.stored_levels,
            "levels in the batch": loss.given_levels,
            "share of zeros": part.zeros,
            "threshold": loss.stored_levels,
            "source": "37 reasons, 3",
        },
        remedies=(Remedy("Convert to float before scaling.", "x = x.float() / 255"),),
        exhibit=Bars(
            ("distinct values in dataset", "distinct values in batch"), (loss.stored_levels, loss.given_levels)
        ),
    )


def _looks_truncated(part: PartFacts, sweep: LoaderSweep, blank: float, standardized: float) -> Iterator[Finding]:
    empty = part.constant / max(part.samples, 1)
    targets = [labels[sweep.blank] for labels in sweep.labels.values()]
    differ = any(len(np.unique(found)) > 1 for found in targets if len(found))
    if empty > blank and differ and part.high <= 1 and part.low >= 0:
        says = f"{empty:.0%} of the samples of `{part.name}` are all zero and the others contain only 0 and 1"
    elif standardized:
        says = f"{standardized:.0%} of the columns of `{part.name}` look standardized but contain only integers"
        empty = standardized
    else:
        return
    yield Finding(
        f"{says}: fractions seem to have been truncated ({sweep.says}).",
        where=part.name,
        severity="suspect",
        evidence={"share": empty, "share of zeros": part.zeros, "threshold": blank, "source": "37 reasons, 3"},
        remedies=(Remedy("Keep a floating-point dtype.", "torch.tensor(values, dtype=torch.float32)"),),
    )


class _Normal(NamedTuple):
    """What the columns of a standard normal distribution look like, after their fractions were truncated."""

    zeros: float
    center: float
    std: tuple[float, float]
    tails: tuple[float, float]


def _looks_standardized(part: PartFacts, least: int, normal: _Normal) -> float:
    """Return the fraction of columns that look standardized and then cast: mostly 0, rarely ±2, both signs."""
    rows = part.rows
    if len(rows) < least or rows.shape[1] < 3 or len(part.shape) != 1:
        return 0.0
    std, center, zeros = rows.std(0), np.abs(rows.mean(0)), (rows == 0).mean(0)
    far = (np.abs(rows) >= 2).mean(0)
    alike = (std > normal.std[0]) & (std < normal.std[1]) & (far > normal.tails[0]) & (far < normal.tails[1])
    alike &= (center < normal.center) & (zeros > normal.zeros)
    return float((alike & (rows.min(0) < 0) & (rows.max(0) > 0)).mean())
