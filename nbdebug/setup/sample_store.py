"""Samples that were read once, kept for every experiment that reads them again: reading may be slow, copying is not."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch

from nbdebug.setup.object_graph import copy_cost

__all__ = ["KEPT_BYTES", "SampleStore"]

KEPT_BYTES = 256_000_000  # as much as is copied of a data set
_PLAIN = (int, float, complex, str, bytes, type(None), np.generic)


class SampleStore:
    """The samples of one data set by index, up to so many bytes; what is given out is a copy."""

    def __init__(self, most: int = KEPT_BYTES) -> None:
        self._kept: dict[Any, Any] = {}
        self._left = most

    def read(self, dataset: Any, index: Any) -> Any:
        """Return the sample at this index, read at most once where it can be kept."""
        key = index if isinstance(index, (int, str)) else None
        if key is not None and key in self._kept:
            return _copied(self._kept[key])
        sample = dataset[index]
        if key is not None and self._left > 0:
            self._keep(key, sample)
        return sample

    def _keep(self, key: Any, sample: Any) -> None:
        try:
            kept = _copied(sample)
        except Exception:  # what cannot be copied is read again
            return
        self._kept[key] = kept
        self._left -= _size(kept)


def _copied(sample: Any) -> Any:
    """Copy a sample; the usual kinds directly, because deepcopy takes longer than many data sets."""
    kind = type(sample)
    if isinstance(sample, _PLAIN):
        return sample
    if kind is torch.Tensor and not sample.requires_grad:
        return sample.clone()
    if kind is np.ndarray and sample.dtype != object:
        return sample.copy()
    if kind in (tuple, list):
        return kind(map(_copied, sample))
    if kind is dict:
        return {key: _copied(value) for key, value in sample.items()}
    return copy.deepcopy(sample)


def _size(sample: Any) -> int:
    """Return about how many bytes a sample takes."""
    if isinstance(sample, (torch.Tensor, np.ndarray)):
        return int(sample.nbytes)
    if isinstance(sample, (str, bytes)):
        return len(sample)
    if isinstance(sample, _PLAIN):
        return 32
    if type(sample) in (tuple, list):
        return 64 + sum(map(_size, sample))
    if type(sample) is dict:
        return 128 + sum(map(_size, sample.values()))
    return int(copy_cost(sample).size) + 1024
