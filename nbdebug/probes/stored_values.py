"""Compare what the data set holds with what arrives in the batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils.data import Subset

from nbdebug.errors import NotApplicable
from nbdebug.evidence import StoredValues, ValueLoss
from nbdebug.registry import probe
from nbdebug.subject import Batch, Subject
from nbdebug.subject.memory import array_of
from nbdebug.subject.nest import leaves, name_of

__all__ = ["stored_values"]

SAMPLES = 48
LEVELS = 8  # fewer different values than that may be meant


@probe
def stored_values(subject: Subject) -> StoredValues:
    """Trace values from the dataset's arrays into the batch."""
    feed = subject.feed
    dataset, total = feed.dataset, feed.total
    if dataset is None or not total or feed.gives_whole_batches:
        raise NotApplicable("the samples cannot be loaded by index, so they cannot be compared with the stored values")
    indices = torch.randperm(total)[:SAMPLES].tolist() if total <= 10_000_000 else list(range(SAMPLES))
    samples, batch = _read(subject, dataset, indices)
    given = {name: _numbers(tensor) for name, tensor in batch.inputs.items() if tensor.shape[:1] == (len(samples),)}
    losses = []
    for name, values in given.items():
        raw = _by_name(samples, name)
        loss = _compare(name, raw, values, "collating") if raw is not None else None
        stored = _stored(dataset, indices, values.shape[1]) if loss is None else []
        found = [_compare(name, held, values, "reading") for held in stored]
        losses.append(loss or next((f for f in found if f is not None), None) or ValueLoss(name))
    return StoredValues(len(samples), tuple(losses))


def _read(subject: Subject, dataset: Any, indices: list[int]) -> tuple[list[Any], Batch]:
    try:
        samples = [dataset[i] for i in indices]
        return samples, subject.wrap(subject.feed.collate(samples))
    except Exception as error:
        raise NotApplicable(f"some samples cannot be loaded ({type(error).__name__})") from error


def _numbers(value: Any) -> np.ndarray:
    """Give samples × values as float64."""
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
    """Give the rows of every array of the data set that has as many values a sample as the batch."""
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
