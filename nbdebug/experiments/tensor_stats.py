"""One way to summarize any tensor: integers, bools, half precision, sparse, complex, empty or full of NaN."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

__all__ = ["TensorFacts", "facts_of", "floats_of", "relative_difference"]


@dataclass(frozen=True)
class TensorFacts:
    """Shape, type and statistics of the finite elements; how many were NaN or infinite is counted apart."""

    shape: tuple[int, ...]
    dtype: str
    count: int = 0
    nan: int = 0
    inf: int = 0
    mean: float = math.nan
    std: float = math.nan
    low: float = math.nan
    high: float = math.nan
    norm: float = math.nan
    zeros: float = math.nan

    @property
    def is_finite(self) -> bool:
        """Whether every element is a finite number."""
        return self.nan == 0 and self.inf == 0

    @property
    def biggest(self) -> float:
        """The largest absolute value."""
        return max(abs(self.low), abs(self.high))


def relative_difference(one: torch.Tensor | None, other: torch.Tensor | None) -> float:
    """Return the largest change relative to the spread of the values; infinite where the shapes differ."""
    if one is None or other is None or one.shape != other.shape:
        return float("inf")
    if torch.equal(one, other):
        return 0.0  # the usual case, told without a copy in double precision
    wide = torch.complex128 if one.is_complex() else torch.float64
    a, b = one.detach().to(wide), other.detach().to(wide)
    finite = torch.isfinite(a) & torch.isfinite(b)
    if not bool(finite.any()):
        return 0.0
    size = max(float(a[finite].abs().mean()), 1e-12)
    spread = float(a[finite].std(correction=0)) if int(finite.sum()) > 1 else 0.0
    return float((a - b)[finite].abs().max()) / max(spread, 1e-3 * size, 1e-12)


def floats_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the values as a flat float64 or float32 tensor on the CPU side of autograd, whatever the type was."""
    tensor = tensor.detach()
    if tensor.is_nested:
        tensor = tensor.values() if tensor.layout is torch.jagged else torch.cat([t.flatten() for t in tensor.unbind()])
    if tensor.layout is not torch.strided:
        tensor = tensor.coalesce().values() if tensor.layout is torch.sparse_coo else tensor.to_dense()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.flatten().to(torch.float64 if tensor.dtype == torch.float64 else torch.float32)


def facts_of(tensor: torch.Tensor) -> TensorFacts:
    """Measure a tensor; statistics are of the finite elements, and the others are counted."""
    shape, dtype = tuple(int(n) for n in tensor.shape) if not tensor.is_nested else (tensor.size(0),), str(tensor.dtype)
    if tensor.is_meta or tensor.numel() == 0:
        return TensorFacts(shape, dtype.removeprefix("torch."))
    values = floats_of(tensor)
    finite = torch.isfinite(values)
    count, kept = int(values.numel()), values[finite].double()
    nan = int(torch.isnan(values).sum())
    if kept.numel() == 0:
        return TensorFacts(shape, dtype.removeprefix("torch."), count=count, nan=nan, inf=count - nan)
    return TensorFacts(
        shape,
        dtype.removeprefix("torch."),
        count=count,
        nan=nan,
        inf=count - int(finite.sum()) - nan,
        mean=float(kept.mean()),
        std=float(kept.std(correction=0)),
        low=float(kept.min()),
        high=float(kept.max()),
        norm=float(torch.linalg.vector_norm(kept)),
        zeros=float((kept == 0).double().mean()),
    )
