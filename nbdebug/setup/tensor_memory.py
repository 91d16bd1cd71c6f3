"""Looks at the memory of tensors with NumPy, and leaves it as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

__all__ = ["address_of", "array_of"]


def array_of(tensor: torch.Tensor) -> np.ndarray:
    """Return an array over the memory of a tensor on the CPU, which it keeps alive.

    `Tensor.numpy` forbids for good that the memory is resized, and that would be a trace in the user's tensors.
    """
    plain: Any = tensor.detach()
    if plain.dtype is torch.bool:  # older versions of NumPy do not take it
        return array_of(plain.view(torch.uint8)).view(np.bool_)
    return np.from_dlpack(plain)


def address_of(tensor: torch.Tensor) -> int:
    """Return where the storage of a tensor begins, which its views share; an id of its own where it has no storage."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return id(tensor)
