"""What is measured around one step, as it waits to be reduced, and the names that it goes by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from nbdebug.watch.recorder.norms import Norms
from nbdebug.watch.recorder.sampling import Block

__all__ = ["NO_SCALE", "LayerName", "ParameterName", "Sample", "as_number"]

NO_SCALE = 1.0


@dataclass(frozen=True)
class LayerName:
    """A module that is looked at."""

    path: str
    module: str


@dataclass(frozen=True)
class ParameterName:
    """A parameter that is looked at."""

    name: str
    layer: str
    shape: tuple[int, ...]
    numel: int


@dataclass
class Sample:
    """What was measured around one step of one optimizer, not yet reduced."""

    step: int
    places: np.ndarray  # of the optimizer's parameters among all
    outputs: list[Block] = field(default_factory=list)
    gradients: Norms | None = None
    used: Norms | None = None
    scale: torch.Tensor | float = NO_SCALE
    used_scale: torch.Tensor | float = NO_SCALE
    before: list[Block] = field(default_factory=list)
    after: list[Block] = field(default_factory=list)


def as_number(value: Any) -> float:
    """Read a tensor, an array or a number as a float; what is none of them is NaN."""
    try:
        if isinstance(value, torch.Tensor):
            value = value.detach()
            return float(value) if value.numel() == 1 else float(value.double().mean())
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        return float("nan")
