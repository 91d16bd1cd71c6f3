"""Small plain steps down the gradient, for experiments that must not depend on the user's optimizer."""

from __future__ import annotations

import torch

from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch

__all__ = ["small_step"]


def small_step(sandbox: Sandbox, batch: Batch, share: float = 0.01) -> float:
    """Move all parameters together by this share of their length against the gradient; give the loss before it.

    The step is as long as it is whatever the scale of the loss, and the same for equal gradients, as Adam's is not.
    Gradients are left in place for whoever wants to look at them.
    """
    parameters = [p for p in sandbox.model.parameters() if p.requires_grad]
    for parameter in parameters:
        parameter.grad = None
    loss = sandbox.run(batch).loss
    if not loss.requires_grad:
        return float(loss.detach())
    loss.backward()
    with torch.no_grad():
        moved = [(p, p.grad.to_dense()) for p in parameters if p.grad is not None]
        norm = sum(float(torch.linalg.vector_norm(g)) ** 2 for _, g in moved) ** 0.5
        length = sum(float(torch.linalg.vector_norm(p)) ** 2 for p, _ in moved) ** 0.5
        if 0 < norm < float("inf"):
            for parameter, gradient in moved:
                parameter.sub_(gradient, alpha=share * (length or 1.0) / norm)
    return float(loss.detach())
