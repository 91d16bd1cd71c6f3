"""Which of the notebook's variables could be the model, the loader, the loss and the optimizer.

They are found by type, and described by what they hold: no loader is iterated, no model is called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup.nested import leaves
from nbdebug.setup.user_code import is_loss, user_code

__all__ = ["ROLES", "candidates"]

ROLES = ("model", "loader", "loss_fn", "optimizer")
_HELD_OUT = ("val", "test", "valid", "eval", "dev")


def candidates(names: Mapping[str, Any]) -> dict[str, list[dict[str, str]]]:
    """Return for each role the variables that could fill it, the most likely first, each with its type and shapes."""
    found: dict[str, list[tuple[str, Any]]] = {role: [] for role in ROLES}
    for name, value in names.items():
        role = _role(name, value)
        if role:
            found[role].append((name, value))
    trained = {id(p) for _, optimizer in found["optimizer"] for p in _parameters(optimizer)}
    found["model"].sort(key=lambda item: _rank_of_model(item[1], trained, [m for _, m in found["model"]]))
    found["loader"].sort(key=lambda item: any(word in item[0].lower() for word in _HELD_OUT))
    return {
        role: [{"name": name, "text": _described(role, value)} for name, value in values]
        for role, values in found.items()
    }


def _role(name: str, value: Any) -> str:
    """Say what a variable could be; only its type is looked at, because a look at more may run the user's code."""
    kind = type(value)
    if isinstance(value, type):
        return ""
    if issubclass(kind, nn.Module):
        return "loss_fn" if is_loss(kind) else "model"
    if issubclass(kind, torch.optim.Optimizer) or all(hasattr(kind, n) for n in ("step", "zero_grad", "state_dict")):
        return "optimizer"
    if issubclass(kind, DataLoader) or _holds_batches(value) or _is_like_a_loader(kind):
        return "loader"
    return "loss_fn" if "loss" in name.lower() and _takes_two(value) else ""


def _is_like_a_loader(kind: type) -> bool:
    """Whether a class says that it gives batches, as the loaders of other libraries do."""
    return "loader" in kind.__name__.lower() and hasattr(kind, "__iter__") and hasattr(kind, "__len__")


def _holds_batches(value: Any) -> bool:
    """Whether it is a list of batches: of tuples, lists or dicts with tensors in them."""
    if type(value) not in (list, tuple) or not value or type(value[0]) not in (list, tuple, dict):
        return False
    return any(isinstance(leaf, torch.Tensor) for _, leaf in leaves(value[0]))


def _takes_two(value: Any) -> bool:
    if not callable(value):
        return False
    try:
        inspect.signature(value).bind("output", "target")
    except (TypeError, ValueError):
        return False
    return True


def _parameters(optimizer: Any) -> list[Any]:
    groups = getattr(optimizer, "param_groups", None)
    return [p for group in groups for p in group["params"]] if isinstance(groups, list) else []


def _rank_of_model(model: nn.Module, trained: set[int], models: list[nn.Module]) -> tuple[bool, bool, int]:
    """Put a model that an optimizer trains first, then one that is no part of another, then the largest."""
    own = list(model.parameters())
    is_part = any(model is part for other in models if other is not model for part in other.modules())
    return (not any(id(p) in trained for p in own), is_part, -sum(p.numel() for p in own))


def _described(role: str, value: Any) -> str:
    describe: dict[str, Callable[[Any], str]] = {"model": _model, "loader": _loader, "optimizer": _optimizer}
    with user_code(passing=()):  # a length or an attribute of the user's own may fail
        return describe.get(role, _name)(value)
    return type(value).__name__


def _name(value: Any) -> str:
    return getattr(value, "__name__", None) or type(value).__name__


def _model(model: nn.Module) -> str:
    own = list(model.parameters())
    wide = [tuple(p.shape) for p in own if p.dim() > 1]
    ends = f", weights {wide[0]} … {wide[-1]}" if len(wide) > 1 else f", weight {wide[0]}" if wide else ""
    return f"{type(model).__name__}, {sum(p.numel() for p in own):,} parameters{ends}"


def _loader(loader: Any) -> str:
    if not isinstance(loader, DataLoader):
        held = f", the first {_shapes(loader[0])}" if isinstance(loader, (list, tuple)) else ""
        return f"{type(loader).__name__} of {len(loader)} batches{held}"
    data: Any = loader.dataset
    size = f"{len(data):,} samples" if hasattr(type(data), "__len__") else "a stream"
    batches = f" in batches of {loader.batch_size}" if loader.batch_size else ""
    held = f", {_shapes(data.tensors)}" if isinstance(data, TensorDataset) else f", {type(data).__name__}"
    return f"{type(loader).__name__}, {size}{batches}{held}"


def _shapes(nest: Any) -> str:
    tensors = [leaf for _, leaf in leaves(nest) if isinstance(leaf, torch.Tensor)]
    return " and ".join(f"{tuple(t.shape)} {str(t.dtype).removeprefix('torch.')}" for t in tensors[:4])


def _optimizer(optimizer: Any) -> str:
    rates = sorted({group.get("lr") for group in optimizer.param_groups}, key=str)
    return f"{type(optimizer).__name__}, lr {', '.join(map(str, rates))}, {len(_parameters(optimizer))} tensors"
