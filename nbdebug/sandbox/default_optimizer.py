"""The optimizer of a copy where the user passed none."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

__all__ = ["LateAdam"]

DEFAULT_LEARNING_RATE = 3e-4  # Full Stack Deep Learning, lecture 7: Adam with 3e-4 to start


class LateAdam:
    """Adam with its usual start, made when first needed: a lazy model has no parameters before its first pass."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._inner: torch.optim.Adam | None = None

    def __getattr__(self, name: str) -> Any:
        if self.__dict__["_inner"] is None:
            trained = [p for p in self._model.parameters() if p.requires_grad]
            self._inner = torch.optim.Adam(trained or [torch.zeros(1, requires_grad=True)], DEFAULT_LEARNING_RATE)
        return getattr(self._inner, name)
