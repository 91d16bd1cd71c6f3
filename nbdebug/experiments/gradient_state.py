"""What gradients, parameters and optimizers hold, as a log of a training step asks it."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["has_values", "held_by", "is_coarse", "is_weighted", "keeps_master", "values_of"]

_FULL_PRECISION = torch.finfo(torch.float32).eps


def is_weighted(node: Any) -> bool:
    """Whether a scalar is divided by or multiplied with a constant, through sums of scalars."""
    if node is None:
        return False
    name, parts = node.name(), [parent for parent, _ in node.next_functions]
    if name in ("DivBackward0", "MulBackward0"):
        return len([part for part in parts if part is not None]) == 1 or any(is_weighted(part) for part in parts)
    return name in ("AddBackward0", "SubBackward0", "NegBackward0", "ToCopyBackward0") and any(map(is_weighted, parts))


def held_by(optimizer: Any) -> list[torch.Tensor]:
    """Return the tensors that an optimizer updates."""
    return [p for group in optimizer.param_groups for p in group["params"]]


def has_values(gradient: torch.Tensor | None) -> bool:
    """Whether a gradient is anything but zeros."""
    if gradient is None:
        return False
    return bool(values_of(gradient).any())


def values_of(gradient: torch.Tensor) -> torch.Tensor:
    """Return the values that a gradient stores."""
    return gradient.detach().coalesce().values() if gradient.is_sparse else gradient.detach()


def is_coarse(parameter: torch.Tensor) -> bool:
    """Whether a parameter is stored in less than single precision."""
    return parameter.is_floating_point() and torch.finfo(parameter.dtype).eps > _FULL_PRECISION


def keeps_master(optimizer: Any, parameter: torch.Tensor) -> bool:
    """Whether an optimizer keeps numbers of full precision for a parameter."""
    state = optimizer.state.get(parameter, {}) if hasattr(optimizer, "state") else {}
    kept = [v for v in state.values() if isinstance(v, torch.Tensor) and v.shape == parameter.shape and v.dim()]
    return any(not is_coarse(v) for v in kept)
