"""A patch that keeps the weights that an optimizer updates in full precision."""

from __future__ import annotations

from typing import Any

import torch

from nbdebug.errors import NotApplicable
from nbdebug.experiments.gradient_state import held_by, is_coarse
from nbdebug.fixes import patch
from nbdebug.sandbox import Sandbox

__all__: list[str] = []


@patch()
def full_precision_updates(sandbox: Sandbox) -> None:
    """Update a copy of the weights in float32 and round it into the model, as training under autocast does."""
    optimizer: Any = sandbox.optimizer
    coarse = [p for p in held_by(optimizer) if is_coarse(p)]
    if not coarse:
        raise NotApplicable("the optimizer holds no weights in low precision")
    exact = {id(p): p.detach().float().requires_grad_(p.requires_grad) for p in coarse}
    groups = [{**group, "params": [exact.get(id(p), p) for p in group["params"]]} for group in optimizer.param_groups]
    try:
        inner = type(optimizer)(groups, **{k: v for k, v in optimizer.defaults.items() if k != "differentiable"})
    except TypeError as error:
        raise NotApplicable("the optimizer cannot be made anew from its own settings") from error

    def step(closure: Any = None) -> Any:
        result = closure() if closure is not None else None
        for group, own in zip(inner.param_groups, optimizer.param_groups, strict=True):
            group.update({name: value for name, value in own.items() if name != "params"})
        for p in coarse:
            exact[id(p)].grad = p.grad.float() if p.grad is not None else None
        inner.step()
        with torch.no_grad():
            for p in coarse:
                p.copy_(exact[id(p)])
        return result

    optimizer.step = step
