"""Tensors that an object holds outside of what torch registers: in lists, dicts, closures and plain attributes."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from nbdebug.core.torch_compat import is_bookkeeping
from nbdebug.setup.object_walk import children_of, step_to, walk

__all__ = ["hidden_tensors"]

_ATOMS = (str, bytes, int, float, type, types.ModuleType)
_DEPTH = 5
_ITEMS = 512


def hidden_tensors(model: nn.Module) -> Iterator[tuple[str, str, str, torch.Tensor]]:
    """Return place, path, kind of holder and tensor of every leaf that asks for a gradient and is not registered."""
    seen = {id(t) for t in (*model.parameters(), *model.buffers())} | {id(m) for m in model.modules()}
    for prefix, module in model.named_modules():
        for name, value in list(vars(module).items()):
            if is_bookkeeping(name) or name.startswith("_forward_"):
                continue
            place = f"{prefix}.{name}" if prefix else name
            for path, part in walk([(place, value)], _inside, skip=_ATOMS, depth=_DEPTH, seen=seen):
                if isinstance(part, torch.Tensor) and part.requires_grad and part.is_leaf:
                    yield place, path, type(value).__name__, part


def _inside(path: str, value: Any) -> list[tuple[str, Any]]:
    """Return the parts of a value, the last one first, because the walk begins with the last."""
    if isinstance(value, nn.Module):
        parts: list[tuple[str, Any]] = [(f".{name}", parameter) for name, parameter in value.named_parameters()]
        for name, module in value.named_modules():
            own = ((attribute, item) for attribute, item in vars(module).items() if not is_bookkeeping(attribute))
            parts += [(f"{'.' if name else ''}{name}.{attribute}", item) for attribute, item in own]
    elif hasattr(value, "__dict__") and callable(getattr(value, "parameters", None)):
        return []
    else:
        found = children_of(value, "cells", "arguments", most=_ITEMS)
        parts = [(step_to(value, key), item) for key, item in found]
    return [(f"{path}{step}", item) for step, item in reversed(parts)]
