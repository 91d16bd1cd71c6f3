"""Which buffers does a pass change, as running statistics do?"""

from __future__ import annotations

import torch

from nbdebug.errors import NotApplicable
from nbdebug.evidence import MovingBuffers, Ranks
from nbdebug.registry import probe
from nbdebug.twin import Twin

__all__ = ["moving_buffers"]


@probe
def moving_buffers(twin: Twin, ranks: Ranks) -> MovingBuffers:
    """Run one pass in train mode and compare the buffers before and after."""
    before = {name: buffer.detach().clone() for name, buffer in twin.model.named_buffers()}
    if not before:
        raise NotApplicable("the model has no buffers")
    twin.model.train()
    with torch.no_grad():
        twin.forward(twin.batches(1)[0])
    now = dict(twin.model.named_buffers())
    return MovingBuffers(tuple(name for name, old in before.items() if name in now and not torch.equal(old, now[name])))
