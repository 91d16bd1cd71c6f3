"""What is looked at, and what was measured around one step, not yet reduced."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from nbdebug.watch.norms import Norms
from nbdebug.watch.sampling import Block

__all__ = ["LayerName", "ParameterName", "Sample"]


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
    places: list[int]  # of the optimizer's parameters among all
    outputs: list[Block] = field(default_factory=list)
    gradients: Norms | None = None
    used: Norms | None = None
    scale: torch.Tensor | float = 1.0
    used_scale: torch.Tensor | float = 1.0
    before: list[Block] = field(default_factory=list)
    after: list[Block] = field(default_factory=list)
