"""Values of any layout and type in a form that can be compared with numbers, without rounding them."""

from __future__ import annotations

import math

import torch

from nbdebug.experiments.tensor_stats import floats_of

__all__ = ["above", "below", "comparable", "stored"]

_UNSIGNED = (torch.uint16, torch.uint32)  # torch compares no unsigned numbers but bytes


def comparable(value: torch.Tensor) -> torch.Tensor:
    """Return all values, also the zeros that a sparse tensor leaves out, in a type that torch can compare."""
    if value.is_nested or value.is_quantized:
        return floats_of(value)
    if value.layout is not torch.strided:
        value = value.to_dense()
    if value.is_floating_point() and value.dtype.itemsize == 1:
        return value.float()
    return value.long() if value.dtype in _UNSIGNED else value


def stored(value: torch.Tensor) -> torch.Tensor:
    """Return the values that are there, which is enough to ask whether they are finite and needs no memory for
    zeros.
    """
    is_plain = value.layout is torch.strided and not value.is_nested and not value.is_quantized
    return comparable(value) if is_plain else floats_of(value)


def below(value: torch.Tensor, low: float) -> torch.Tensor:
    """Mark what is not at least `low`; whole numbers are compared as such, where a float would round them."""
    if _is_whole(value) and math.isfinite(low):
        bound = math.ceil(low)
        if not _fits(value, bound):
            return torch.full_like(value, bound > 0, dtype=torch.bool)
        return value < bound
    return ~(value >= float(low))


def above(value: torch.Tensor, high: float) -> torch.Tensor:
    """Mark what is not at most `high`."""
    if _is_whole(value) and math.isfinite(high):
        bound = math.floor(high)
        if not _fits(value, bound):
            return torch.full_like(value, bound < 0, dtype=torch.bool)
        return value > bound
    return ~(value <= float(high))


def _is_whole(value: torch.Tensor) -> bool:
    return not value.is_floating_point() and not value.is_complex() and value.dtype is not torch.bool


def _fits(value: torch.Tensor, bound: int) -> bool:
    limits = torch.iinfo(value.dtype)
    return limits.min <= bound <= limits.max
