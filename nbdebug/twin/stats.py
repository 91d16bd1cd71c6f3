"""One way to summarize any tensor: integers, bools, half precision, sparse, complex, empty or full of NaN."""

from __future__ import annotations

import torch

from nbdebug.evidence.tensors import TensorFacts

__all__ = ["facts_of", "floats_of"]


def floats_of(tensor: torch.Tensor) -> torch.Tensor:
    """Give the values as a flat float64 or float32 tensor on the CPU side of autograd, whatever the type was."""
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
