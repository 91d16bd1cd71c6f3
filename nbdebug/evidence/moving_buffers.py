"""Which buffers does a pass change, as running statistics do?"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.ranks import Ranks
from nbdebug.sandbox import Sandbox

__all__ = ["MovingBuffers", "moving_buffers"]


@dataclass(frozen=True)
class MovingBuffers:
    """The buffers that a pass in training mode changes, as running statistics do."""

    names: tuple[str, ...]


@probe
def moving_buffers(sandbox: Sandbox, ranks: Ranks) -> MovingBuffers:
    """Run one pass in train mode and compare the buffers before and after."""
    before = {name: buffer.detach().clone() for name, buffer in sandbox.model.named_buffers()}
    if not before:
        raise NotApplicable("the model has no buffers")
    sandbox.model.train()
    with torch.no_grad():
        sandbox.forward(sandbox.batches(1)[0])
    now = dict(sandbox.model.named_buffers())
    return MovingBuffers(tuple(name for name, old in before.items() if name in now and not torch.equal(old, now[name])))
