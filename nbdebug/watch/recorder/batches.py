"""Tells batches apart by a sample of their values, so that the same one coming again is seen."""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from nbdebug.setup.nested import tensors_in
from nbdebug.setup.tensor_memory import array_of
from nbdebug.watch.recorder.series import BatchTally

__all__ = ["Batches"]

MOST = 8192  # batches that are remembered
RUNS, LENGTH = 32, 16  # of neighboring values that are read of a batch
FIRST = 512  # batches whose order is remembered
_READABLE = (torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool)


class Batches:
    """Counts fingerprints of batches; on another device than the CPU nothing is read, because that would wait."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self.first: dict[int, int] = {}  # by the number of the pass, with the same marks on every process
        self._last, self._run, self._place = 0, 0, -1
        self.seen = self.longest = self.again = self.values = 0

    def see(self, args: Any, kwargs: Any, place: int = 0) -> None:
        """Count the batch that a pass begins with; the place is the number of the pass."""
        mark = self.values = 0
        for tensor in args if args and isinstance(args[0], torch.Tensor) else tensors_in((args, kwargs)):
            if isinstance(tensor, torch.Tensor):
                mark = hash((mark, _mark(tensor)))
                self.values += tensor.numel()
        if mark == 0:
            return
        self.seen += 1
        if len(self.first) < FIRST:
            self.first[place] = mark
        self.again += mark == self._last and place == self._place + 1
        self._run, self._place = self._run + 1 if mark == self._last else 1, place
        self._last, self.longest = mark, max(self.longest, self._run)
        if mark in self._known or len(self._known) < MOST:
            self._known[mark] = self._known.get(mark, 0) + 1

    def tally(self) -> BatchTally:
        """Return the counts."""
        most = max(self._known.values(), default=0)
        return BatchTally(
            seen=self.seen,
            distinct=len(self._known),
            in_a_row=self.longest,
            most_common=most,
            is_full=len(self._known) >= MOST,
            again=self.again,
            places=len(self.first),
            span=self._place + 1,
        )


def _mark(tensor: torch.Tensor) -> int:
    if tensor.device.type != "cpu" or tensor.layout is not torch.strided or not tensor.numel() or tensor.is_nested:
        return 0
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.detach().resolve_conj())
    if tensor.dtype not in _READABLE or tensor.is_neg():
        tensor = tensor.detach().resolve_neg().float()
    flat = array_of(tensor)
    flat = flat.reshape(-1) if flat.flags.c_contiguous else flat[:4].reshape(-1)
    # Not Python's hash of bytes, which is salted: processes of one training compare their batches by these marks.
    return hash((tensor.shape, zlib.crc32(flat[_places(flat.size)].tobytes())))


@lru_cache(maxsize=64)
def _places(count: int) -> np.ndarray:
    """Return short runs in steps of the golden ratio: even steps meet the same column of every sample, maybe empty."""
    if count <= RUNS * LENGTH:
        return np.arange(count)
    starts = (np.arange(RUNS) * int(0.618034 * count)) % (count - LENGTH)
    return (starts[:, None] + np.arange(LENGTH)).reshape(-1)
