"""Looks at the memory of tensors with NumPy, and leaves it as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

__all__ = ["array_of"]


def array_of(tensor: torch.Tensor) -> np.ndarray:
    """Return an array over the memory of a tensor on the CPU, which it keeps alive.

    `Tensor.numpy` forbids for good that the memory is resized, and that would be a trace in the user's tensors.
    """
    plain: Any = tensor.detach()
    if plain.dtype is torch.bool:  # older versions of NumPy do not take it
        return array_of(plain.view(torch.uint8)).view(np.bool_)
    return np.from_dlpack(plain)
