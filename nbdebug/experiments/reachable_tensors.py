"""Tensors that an object holds outside of what torch registers: in lists, dicts, closures and plain attributes."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from nbdebug.core.torch_compat import is_bookkeeping

__all__ = ["hidden_tensors"]

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
            for path, tensor in _inside(value, place, seen, 0):
                yield place, path, type(value).__name__, tensor


def _inside(value: Any, path: str, seen: set[int], depth: int) -> Iterator[tuple[str, torch.Tensor]]:
    if depth > _DEPTH or id(value) in seen or isinstance(value, (str, bytes, int, float, type, types.ModuleType)):
        return
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        if value.requires_grad and value.is_leaf:
            yield path, value
    elif isinstance(value, nn.Module):
        for name, parameter in value.named_parameters():
            if parameter.requires_grad and id(parameter) not in seen:
                seen.add(id(parameter))
                yield f"{path}.{name}", parameter
        for name, part in value.named_modules():
            for own, item in list(vars(part).items()):
                if not is_bookkeeping(own):
                    yield from _inside(item, f"{path}{'.' if name else ''}{name}.{own}", seen, depth + 1)
    else:
        for step, item in _parts(value):
            yield from _inside(item, f"{path}{step}", seen, depth + 1)


def _parts(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [(f"[{key!r}]", item) for key, item in list(value.items())[:_ITEMS]]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [(f"[{index}]", item) for index, item in enumerate(list(value)[:_ITEMS])]
    if isinstance(value, functools.partial):
        return [(".func", value.func), (".args", value.args), (".keywords", value.keywords)]
    if isinstance(value, types.FunctionType):
        return [(f"<{name}>", cell) for name, cell in _cells(value)]
    if hasattr(value, "__dict__") and not callable(getattr(value, "parameters", None)):
        return [(f".{name}", item) for name, item in list(vars(value).items())[:_ITEMS]]
    return []


def _cells(function: types.FunctionType) -> list[tuple[str, Any]]:
    found = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            found.append((name, cell.cell_contents))
        except ValueError:  # not filled yet
            continue
    return found
