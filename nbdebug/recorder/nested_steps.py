"""Tell a step that an optimizer makes inside its own step, for which torch calls the hooks once more."""

from __future__ import annotations

import sys
from types import FrameType

import torch

__all__ = ["is_inner_step"]

# What torch wraps around the `step` of every class of optimizers, with the hooks.
_WRAPPER = torch.optim.Optimizer.profile_hook_step(lambda: None).__code__


def is_inner_step(optimizer: torch.optim.Optimizer) -> bool:
    """Say, in a hook of a step, whether it is one that the optimizer's own step has called, as ``super().step()``."""
    frame: FrameType | None = sys._getframe(1)
    steps = 0
    while frame is not None and steps < 2:
        steps += frame.f_code is _WRAPPER and frame.f_locals.get("self") is optimizer
        frame = frame.f_back
    return steps == 2
