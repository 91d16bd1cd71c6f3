"""A patch that keeps the weights that an optimizer updates in full precision."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch

from nbdebug.errors import NotApplicable
from nbdebug.experiments.gradient_state import held_by, is_coarse
from nbdebug.fixes import patch
from nbdebug.fixes.optimizing import like
from nbdebug.sandbox import Sandbox

__all__: list[str] = []


@patch("check")
def full_precision_updates(sandbox: Sandbox) -> None:
    """Update a copy of the weights in float32 and round it into the model, as training under autocast does."""
    optimizer: Any = sandbox.optimizer
    coarse = [p for p in held_by(optimizer) if is_coarse(p)]
    if not coarse:
        raise NotApplicable("the optimizer holds no weights in low precision")
    exact = {id(p): p.detach().float().requires_grad_(p.requires_grad) for p in coarse}
    groups = [{**group, "params": [exact.get(id(p), p) for p in group["params"]]} for group in optimizer.param_groups]
    inner = like(optimizer)
    if "param_groups" not in vars(inner):
        raise NotApplicable("the optimizer is a wrapper around another one")
    inner.param_groups, inner.state = groups, defaultdict(dict)

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
