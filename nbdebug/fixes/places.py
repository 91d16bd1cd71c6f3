"""Find the layer with weights that a patch applies to."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from nbdebug.errors import NotApplicable
from nbdebug.sandbox import Sandbox

__all__ = ["called_layers", "last_layer", "module_at"]


def module_at(sandbox: Sandbox, path: str) -> nn.Module:
    """Return the module at a path, or raise NotApplicable."""
    try:
        return sandbox.model.get_submodule("" if path == "model" else path)
    except AttributeError:
        raise NotApplicable(f"there is no module named {path}") from None


@torch.no_grad()
def called_layers(sandbox: Sandbox) -> list[tuple[str, nn.Module]]:
    """Return the modules without children, in call order on one batch."""
    seen: list[tuple[str, nn.Module]] = []
    leaves = {
        path: module for path, module in sandbox.model.named_modules() if not any(True for _ in module.children())
    }
    handles = [
        module.register_forward_hook(_noting(seen, path, module))
        for path, module in leaves.items()
        if not isinstance(module, torch.jit.ScriptModule)
    ]
    try:
        with sandbox.mode(training=False):
            sandbox.forward(sandbox.batch())
    finally:
        for handle in handles:
            handle.remove()
    return seen


def last_layer(sandbox: Sandbox, path: str = "") -> Any:
    """Return the layer with weights at this path, or the last one called up to there."""
    calls = called_layers(sandbox)
    if path:
        places = [index for index, (called, _) in enumerate(calls) if called == path or called.startswith(f"{path}.")]
        calls = calls[: places[-1] + 1] if places else calls
    weighted: list[Any] = [module for _, module in calls if isinstance(getattr(module, "weight", None), nn.Parameter)]
    linear = [module for module in weighted if module.weight.dim() > 1 and hasattr(module, "bias")]
    if not linear:
        raise NotApplicable("there is no layer with weight and bias")
    return linear[-1]


def _noting(seen: list[tuple[str, nn.Module]], path: str, module: nn.Module) -> Any:
    def hook(*_: Any) -> None:
        seen.append((path, module))

    return hook
