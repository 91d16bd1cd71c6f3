"""Add up what the samples of a sweep are like, batch by batch, without keeping them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from nbdebug.setup import Batch
from nbdebug.setup.feature_rows import digests_of
from nbdebug.setup.tensor_memory import array_of

__all__ = ["PartFacts", "PartTally", "flat_rows", "grouped", "keys_of", "labels_of", "parts_of"]


@dataclass(frozen=True)
class PartFacts:
    """One input or target over all samples drawn: statistics are of the finite values, the others are counted.

    `shape` and `width` are of one sample. `rows` holds some samples (at most 512) at some evenly spaced places of the
    flattened sample (`places`, at most 256). `whole` says that every value is a whole number; `constant` counts samples
    that are one value all over, `varies` says whether samples differ from one another at all.
    """

    name: str
    role: str  # "input" or "target"
    dtype: str
    shape: tuple[int, ...]
    width: int
    samples: int = 0
    values: int = 0
    nan: int = 0
    positive_inf: int = 0
    negative_inf: int = 0
    bad_samples: int = 0
    first_bad: int | None = None
    bad_columns: tuple[int, ...] = ()
    low: float = math.nan
    high: float = math.nan
    mean: float = math.nan
    std: float = math.nan
    zeros: float = math.nan
    whole: bool = False
    varies: bool = True
    constant: int = 0
    constant_columns: tuple[int, ...] | None = None
    places: tuple[int, ...] = ()
    rows: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.float32))

    @property
    def is_float(self) -> bool:
        """Whether the values are stored as real numbers."""
        return self.dtype.startswith(("float", "bfloat", "complex"))

    @property
    def bad(self) -> int:
        """How many values are NaN or infinite."""
        return self.nan + self.positive_inf + self.negative_inf


ROWS = 512
PLACES = 256
COLUMNS = 4096  # wider samples are not looked at column by column


def parts_of(batch: Batch) -> list[tuple[str, str, torch.Tensor]]:
    """Return every tensor with its name and role; lists with one tensor a sample go under one name."""
    found = []
    for role, tensors in (("input", batch.inputs), ("target", batch.targets)):
        for name, tensor in tensors.items():
            ragged = tensor.dim() == 0 or tensor.shape[0] != batch.size
            found.append((re.sub(r"(?<=.)\[\d+\]", "[·]", name) if ragged and len(tensors) > 1 else name, role, tensor))
    return found


def flat_rows(tensor: torch.Tensor, size: int) -> torch.Tensor:
    """Return the values as samples × places, in floating point; what has no samples becomes one row."""
    values = tensor.detach().cpu()
    if values.is_nested:
        values = torch.nested.to_padded_tensor(values, 0.0)
    values = values.to_dense() if values.layout is not torch.strided else values
    values = values.dequantize() if values.is_quantized else values
    values = torch.view_as_real(values.resolve_conj()) if values.is_complex() else values
    if not values.is_floating_point():
        values = values.double()
    elif values.dtype in (torch.float16, torch.bfloat16):
        values = values.float()
    return values.reshape(size if values.dim() and values.shape[0] == size else 1, -1)


def keys_of(batch: Batch) -> np.ndarray | None:
    """Return a digest of the inputs of each sample, or None where no input has one row a sample."""
    if not any(t.dim() > 0 and t.shape[0] == batch.size and not t.is_nested for t in batch.inputs.values()):
        return None
    return np.array([int.from_bytes(digest[:8], "little") for digest in digests_of(batch)], dtype=np.uint64)


def labels_of(batch: Batch) -> dict[str, np.ndarray]:
    """Return the targets that are one number a sample; one-hot rows count as the number of their class."""
    found = {}
    for name, tensor in batch.targets.items():
        if tensor.dim() == 0 or tensor.shape[0] != batch.size or tensor.is_complex():
            continue
        rows = flat_rows(tensor, batch.size)
        if rows.shape[1] == 1:
            found[name] = array_of(rows[:, 0].double())
        elif tensor.dim() == 2 and bool(((rows == 0) | (rows == 1)).all()) and bool((rows.sum(1) == 1).all()):
            found[name] = rows.argmax(1).double().numpy()
    return found


class PartTally:
    """The running sums of one input or target."""

    def __init__(self, name: str, role: str, tensor: torch.Tensor, size: int) -> None:
        self.name, self.role = name, role
        self.dtype = str(tensor.dtype).removeprefix("torch.")
        sampled = tensor.dim() > 0 and tensor.shape[0] == size
        self.shape = tuple(int(n) for n in (tensor.shape[1:] if sampled else tensor.shape))
        self.width = flat_rows(tensor, size).shape[1]
        self.places = tuple(np.unique(np.linspace(0, self.width - 1, PLACES).astype(int))) if self.width else ()
        self.samples = self.values = self.nan = self.positive = self.negative = self.bad_samples = self.constant = 0
        self.zeros, self.total, self.squares = 0, 0.0, 0.0
        self.low, self.high = float("inf"), float("-inf")
        self.whole, self.varies, self.even = True, False, True
        self.first: torch.Tensor | None = None
        self.first_bad: int | None = None
        self.bad_columns: set[int] = set()
        self.column_low: torch.Tensor | None = None
        self.column_high: torch.Tensor | None = None
        self.rows: list[np.ndarray] = []

    def add(self, tensor: torch.Tensor, size: int, indices: tuple[int, ...]) -> np.ndarray:
        """Count one batch in, and say for each sample whether it is one value all over."""
        rows = flat_rows(tensor, size)
        if rows.numel() == 0:
            return np.zeros(len(rows), bool)
        finite = torch.isfinite(rows)
        if not bool(finite.all()):
            self._add_bad(rows, finite, indices)
            rows = torch.where(finite, rows, 0.0)
        self.samples += len(rows)
        self.values += rows.numel()
        self.zeros += rows.numel() - int(torch.count_nonzero(rows))
        self.total += float(rows.sum(dtype=torch.float64))
        self.squares += float(rows.square().sum(dtype=torch.float64))
        self.low, self.high = min(self.low, float(rows.min())), max(self.high, float(rows.max()))
        self.whole = self.whole and bool((rows == rows.round()).all())
        self._add_columns(rows)
        even = (rows.amin(1) == rows.amax(1)).numpy()
        self.constant += int(even.sum())
        return np.asarray(even)

    def _add_bad(self, rows: torch.Tensor, finite: torch.Tensor, indices: tuple[int, ...]) -> None:
        self.nan += int(torch.isnan(rows).sum())
        self.positive += int((rows == float("inf")).sum())
        self.negative += int((rows == float("-inf")).sum())
        ill = (~finite).any(1).nonzero().flatten().tolist()
        self.bad_samples += len(ill)
        if self.first_bad is None:
            self.first_bad = indices[ill[0]] if ill[0] < len(indices) else ill[0]
        self.bad_columns |= set((~finite).any(0).nonzero().flatten().tolist()[:20])

    def _add_columns(self, rows: torch.Tensor) -> None:
        if rows.shape[1] != self.width:
            self.even, self.varies = False, True
            return
        self.first = rows[0].clone() if self.first is None else self.first
        self.varies = self.varies or bool((rows != self.first).any())
        if self.width <= COLUMNS:
            low, high = rows.amin(0), rows.amax(0)
            self.column_low = low if self.column_low is None else torch.minimum(self.column_low, low)
            self.column_high = high if self.column_high is None else torch.maximum(self.column_high, high)
        if sum(map(len, self.rows)) < ROWS:
            self.rows.append(rows[:, list(self.places)].float().numpy())

    def facts(self) -> PartFacts:
        """Return what was counted."""
        known = max(self.values - self.nan - self.positive - self.negative, 1)
        mean = self.total / known
        return PartFacts(
            self.name, self.role, self.dtype, self.shape, self.width,
            samples=self.samples, values=self.values,
            nan=self.nan, positive_inf=self.positive, negative_inf=self.negative,
            bad_samples=self.bad_samples, first_bad=self.first_bad, bad_columns=tuple(sorted(self.bad_columns)),
            low=self.low, high=self.high, mean=mean, std=max(self.squares / known - mean**2, 0.0) ** 0.5,
            zeros=self.zeros / max(self.values, 1), whole=self.whole, varies=self.varies, constant=self.constant,
            constant_columns=self._constant_columns(),
            places=tuple(int(p) for p in self.places),
            rows=np.concatenate(self.rows)[:ROWS] if self.rows else np.zeros((0, 0), np.float32),
        )  # fmt: skip

    def _constant_columns(self) -> tuple[int, ...] | None:
        low, high = self.column_low, self.column_high
        if low is None or high is None or not self.even:
            return None
        return tuple((low == high).nonzero().flatten().tolist())


def grouped(batch: Batch) -> dict[tuple[str, str], list[torch.Tensor]]:
    """Put the tensors of a batch under their names and roles."""
    groups: dict[tuple[str, str], list[Any]] = {}
    for name, role, tensor in parts_of(batch):
        groups.setdefault((name, role), []).append(tensor)
    return groups
