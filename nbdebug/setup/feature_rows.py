"""Turn batches of any kind into rows of numbers that simple models and distances can work with.

Small inputs are taken value by value, images are averaged down, long tables are projected, and token ids become counts
beside their first positions. Every row also gets the digest of its whole content, so that equality is exact.
"""

from __future__ import annotations

import hashlib
import math
from typing import NamedTuple

import numpy as np
import torch
from torch.nn import functional as F

from nbdebug.setup.batch import Batch
from nbdebug.setup.tensor_memory import array_of

__all__ = ["ColumnGroup", "Columns", "columns_of", "digests_of", "joined"]

WIDTH = 1024  # columns of one input at the most
BUCKETS = 256
POSITIONS = 64
_INTEGERS = (torch.int16, torch.int32, torch.int64)


class ColumnGroup(NamedTuple):
    """Columns that come from one input, and what was made of it, where that is not its values as they are."""

    input: str
    made: str = ""

    def __str__(self) -> str:
        """Return the name that is shown."""
        return f"{self.input} ({self.made})" if self.made else self.input


Columns = dict[ColumnGroup, np.ndarray]  # samples by columns


def columns_of(batch: Batch) -> Columns:
    """Return the inputs of a batch as named groups of columns, one row a sample."""
    found: Columns = {}
    if batch.joined_by:
        return found  # a row is not a sample there
    for name, tensor in batch.inputs.items():
        if tensor.dim() == 0 or tensor.shape[0] != batch.size or tensor.is_nested:
            continue
        values = _plain(tensor)
        if values.dim() == 2 and tensor.dtype in _INTEGERS and values.shape[1] >= 8:
            found[ColumnGroup(name)] = array_of(values[:, :POSITIONS])
            found[ColumnGroup(name, "counts")] = _counts(values)
        else:
            reduced = _reduced(values)
            whole = reduced.shape[1] == math.prod(values.shape[1:])
            found[ColumnGroup(name, "" if whole else "averaged")] = array_of(reduced)
    return found


def joined(parts: list[Columns]) -> tuple[np.ndarray, tuple[str, ...], tuple[str, ...]]:
    """Put batches under one another; gives rows, the name of each column, and the input that it comes from.

    Sequences of different lengths are filled up with zeros at their ends.
    """
    names = list(dict.fromkeys(name for part in parts for name in part))
    names = [name for name in names if all(name in part for part in parts)]
    blocks, columns, groups = [], [], []
    for name in names:
        width = max(part[name].shape[1] for part in parts)
        padded = [np.pad(part[name], ((0, 0), (0, width - part[name].shape[1]))) for part in parts]
        blocks.append(np.concatenate(padded))
        columns += [str(name)] if width == 1 else [f"{name}[:, {i}]" for i in range(width)]
        groups += [name.input] * width
    rows = np.concatenate(blocks, 1) if blocks else np.zeros((0, 0), np.float32)
    return np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0), tuple(columns), tuple(groups)


def digests_of(batch: Batch) -> list[bytes]:
    """Return for each sample a digest of everything that the model would receive of it, padding with zeros left out."""
    hashers = [hashlib.blake2b(digest_size=12) for _ in range(batch.size)]
    for tensor in batch.inputs.values():
        if tensor.dim() == 0 or tensor.shape[0] != batch.size or tensor.is_nested:
            continue
        values = tensor.detach().cpu()
        values = values.to_dense() if values.layout is not torch.strided else values
        array = array_of((values.float() if values.dtype == torch.bfloat16 else values).contiguous())
        for hasher, row in zip(hashers, array, strict=True):
            hasher.update(row.tobytes().rstrip(b"\0") + b"|")
    return [hasher.digest() for hasher in hashers]


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """Return the values as float32 on the CPU, whatever they were."""
    values = tensor.detach().cpu()
    if values.layout is not torch.strided:
        values = values.to_dense()
    values = values.dequantize() if values.is_quantized else values
    values = torch.view_as_real(values.resolve_conj()) if values.is_complex() else values
    return values.float()


def _reduced(values: torch.Tensor) -> torch.Tensor:
    """Bring the values of each sample down to a bounded number of columns."""
    count = math.prod(values.shape[1:])
    if count <= WIDTH:
        return values.reshape(len(values), count)
    if values.dim() >= 4:
        images = values.reshape(len(values), -1, *values.shape[-2:])
        side = max(2, int((WIDTH / min(images.shape[1], WIDTH // 4)) ** 0.5))
        images = images[:, : WIDTH // 4]
        height, width = min(side, images.shape[-2]), min(side, images.shape[-1])
        return F.adaptive_avg_pool2d(images, (height, width)).flatten(1)
    if values.dim() == 3 and min(values.shape[1:]) <= WIDTH // 4:
        series = values if values.shape[2] >= values.shape[1] else values.transpose(1, 2)
        return F.adaptive_avg_pool1d(series, max(1, WIDTH // series.shape[1])).flatten(1)
    return _projected(values.flatten(1))


def _projected(values: torch.Tensor) -> torch.Tensor:
    """Add columns up with random signs into fewer: distances stay about the same."""
    generator = np.random.default_rng(values.shape[1])
    bucket = torch.from_numpy(generator.integers(0, WIDTH, values.shape[1]))
    sign = torch.from_numpy(generator.choice([-1.0, 1.0], values.shape[1]).astype(np.float32))
    return torch.zeros(len(values), WIDTH).index_add_(1, bucket, values * sign)


def _counts(ids: torch.Tensor) -> np.ndarray:
    """Count how often each id occurs, ids of large vocabularies thrown together."""
    hashed = ids.long()
    hashed = torch.where(
        hashed < BUCKETS, hashed, hashed * 40503 >> 4
    )  # the same id falls into the same bucket in every batch
    counts = torch.zeros(len(ids), BUCKETS)
    return counts.scatter_add_(1, hashed.remainder(BUCKETS), torch.ones_like(ids)).numpy()
