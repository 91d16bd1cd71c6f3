"""The norms of many gradients, exactly: on the CPU one dot product each, on other devices one call for all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from nbdebug.core.torch_compat import foreach_norm
from nbdebug.setup.distributed.pieces import is_piece, pieces_of
from nbdebug.watch.recorder.memory import Memory

__all__ = ["Gradients", "Norms", "norms_of", "together"]

_FLOAT_BYTES = 4
_VDOT = np.vdot
ALONE = 10_000  # elements above which `dot` takes more threads for no gain, and `vdot` does not
TINY = 1e-37  # squares below it have lost digits in float32, or all
_NONE = np.empty(0)
_HALF = (torch.float16, torch.bfloat16)


class Norms:
    """Norms of some gradients: known already, or still on a device."""

    __slots__ = ("_known", "_later", "_places")

    def __init__(self, known: np.ndarray, places: list[int], later: list[torch.Tensor]) -> None:
        self._known, self._places, self._later = known, places, later

    @property
    def is_known(self) -> bool:
        """Whether no device has to be waited for."""
        return not self._later

    def numpy(self) -> np.ndarray:
        """Return the norms, NaN where there is no gradient and infinite where it is not finite."""
        if self._later:
            found = np.array([float(norm) for norm in torch.stack([x.float() for x in self._later]).cpu()])
            self._known[self._places] = np.where(np.isfinite(found), found, np.inf)
            self._later = []
        return self._known


class _Squares(Norms):
    """Finite squares of norms: the roots are taken later, because beside a training each operation costs its code."""

    __slots__ = ("_are_there", "_squares")

    def __init__(self, squares: list[float], are_there: list[bool] | None) -> None:
        super().__init__(_NONE, [], [])
        self._squares, self._are_there = squares, are_there

    def numpy(self) -> np.ndarray:
        """Return the norms, NaN where there is no gradient."""
        found = np.sqrt(np.array(self._squares, np.float64))
        if self._are_there is None:
            return found
        known = np.full(len(self._are_there), np.nan)
        known[self._are_there] = found
        return known


def together(norms: Sequence[Norms]) -> np.ndarray:
    """Return the norms of several steps, one row for each."""
    squares = [one._squares for one in norms if type(one) is _Squares and one._are_there is None]
    if len(squares) == len(norms):
        return np.sqrt(np.array(squares, np.float64))
    return np.stack([one.numpy() for one in norms])


class Gradients:
    """Measures the gradients of the same parameters again and again: where all are float32 on the CPU, by address."""

    def __init__(self) -> None:
        self._memory = Memory([], [])
        self.are_plain = False  # those that were measured last

    def norms(self, gradients: Sequence[torch.Tensor | None]) -> Norms:
        """Measure every gradient."""
        held = [g for g in gradients if g is not None]
        if any(map(is_piece, held)):
            gradients = pieces_of(gradients)
            held = [g for g in gradients if g is not None]
        arrays = self._memory.of(held)
        if arrays is None:
            sizes = [g.numel() for g in held]
            if sizes != self._memory.sizes:
                self._memory = Memory(sizes, [((size,), (_FLOAT_BYTES,)) for size in sizes])
                arrays = self._memory.of(held)
        self.are_plain = arrays is not None
        if arrays is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                squares = [_VDOT(a, a) if a.size > ALONE else a.dot(a) for a in arrays]
            if min(squares, default=1.0) < TINY:
                squares = [_wide(a) if square < TINY else square for square, a in zip(squares, arrays, strict=True)]
            if math.isfinite(math.fsum(squares)):
                return _Squares(squares, None if len(held) == len(gradients) else [g is not None for g in gradients])
        return norms_of(gradients)


def _wide(array: np.ndarray) -> Any:
    """Return the sum of squares of numbers that are too small for squares of float32."""
    wide = array.astype(np.float64)
    return wide.dot(wide)


def norms_of(gradients: Sequence[torch.Tensor | None]) -> Norms:
    """Measure every gradient, whatever it is and wherever it lies."""
    known = np.full(len(gradients), np.nan)
    others: list[int] = []
    for index, gradient in enumerate(gradients):
        if gradient is None or not gradient.numel():
            continue
        if gradient.layout is torch.strided and gradient.device.type == "cpu":
            plain = gradient.detach()
            plain = torch.view_as_real(plain.resolve_conj()) if plain.is_complex() else plain
            norm = float(torch.linalg.vector_norm(plain, dtype=torch.float64))
            known[index] = norm if np.isfinite(norm) else np.inf
        else:
            others.append(index)
    return Norms(known, others, _on_device([gradients[i] for i in others]))  # type: ignore[misc]


def _on_device(gradients: list[torch.Tensor]) -> list[torch.Tensor]:
    values = [g.detach().coalesce().values() if g.is_sparse else g.detach() for g in gradients]
    values = [torch.view_as_real(v.resolve_conj()) if v.is_complex() else v for v in values]
    values = [v.float() if v.dtype in _HALF else v for v in values]  # half precision overflows
    devices = {v.device for v in values}
    if len(devices) > 1:
        return [torch.linalg.vector_norm(v).to("cpu") for v in values]
    return list(foreach_norm(values)) if values else []
