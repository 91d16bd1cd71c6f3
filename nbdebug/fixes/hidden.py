"""Patches for unregistered parts of a model: layers and tensors in plain attributes."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from nbdebug.errors import NotApplicable
from nbdebug.fixes import patch
from nbdebug.fixes.optimizing import add_to_optimizer
from nbdebug.sandbox import Sandbox

__all__: list[str] = []


@patch()
def register_hidden(sandbox: Sandbox) -> None:
    """Register layers and tensors that the model uses but does not list, and add them to the optimizer."""
    add_to_optimizer(sandbox, _all_registered(sandbox))


@patch("check")
def hold_hidden_layers(sandbox: Sandbox) -> None:
    """Register layers in plain lists, so that `eval()` reaches them."""
    training = sandbox.model.training
    _all_registered(sandbox)
    sandbox.model.train(training)


def _all_registered(sandbox: Sandbox) -> list[nn.Parameter]:
    found: list[nn.Parameter] = []
    before = sum(1 for _ in sandbox.model.modules())
    for module in list(sandbox.model.modules()):
        for name, value in list(vars(module).items()):
            if not name.startswith("_"):
                found += _registered(module, name, value)
    if not found and before == sum(1 for _ in sandbox.model.modules()):
        raise NotApplicable("no unregistered layers or tensors were found in the copy")
    return found


def _registered(owner: nn.Module, name: str, value: Any) -> list[nn.Parameter]:
    """Register layers, and tensors that require a gradient, under the attribute that holds them."""
    if _is_trainable(value):
        owner.__dict__.pop(name, None)
        owner.register_parameter(name, value if isinstance(value, nn.Parameter) else nn.Parameter(value.detach()))
        return [owner.get_parameter(name)]
    items: list[Any] = (
        list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, (list, tuple)) else []
    )
    found: list[nn.Parameter] = []
    for place, item in enumerate(items):  # the container stays, because forward uses it
        if isinstance(item, nn.Module):
            owner.add_module(f"{name}_{place}", item)
            found += item.parameters()
        elif isinstance(item, nn.Parameter) and _is_trainable(item):
            owner.register_parameter(f"{name}_{place}", item)
            found.append(item)
        elif isinstance(item, (list, tuple, dict)):
            found += _registered(owner, f"{name}_{place}_", item)
    return found


def _is_trainable(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad and value.is_leaf
