"""The networks, optimizers and schedulers that the user's loss and training step reach, by the names they give them."""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.sandbox import Sandbox
from nbdebug.setup.object_walk import children_of, walk
from nbdebug.setup.several import SeveralOptimizers
from nbdebug.setup.user_code import is_users_class, is_users_function, names_used

__all__ = ["Reached", "innermost", "reached_parts"]

_DEPTH = 6
_MOST = 2_000
_ITEMS = 64  # of a container
_PARTS = (nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler, torch.Tensor)
_SKIPPED = (str, bytes, int, float, type, types.ModuleType, DataLoader, Dataset)


@dataclass
class Reached:
    """What a program reaches: each thing once, with the name of the variable or attribute that holds it.

    `networks` begins with the model; parts of another network are left out. `tensors` are single leaves that require
    a gradient. `named` are all names that the user's functions look up.
    """

    networks: dict[str, nn.Module] = field(default_factory=dict)
    optimizers: dict[str, Any] = field(default_factory=dict)
    schedulers: dict[str, Any] = field(default_factory=dict)
    scalers: list[Any] = field(default_factory=list)
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)

    def name_of(self, optimizer: Any) -> str:
        """Return the name of an optimizer; its class where the program holds none."""
        known = next((name for name, part in self.optimizers.items() if part is optimizer), "")
        return known or type(optimizer).__name__


def reached_parts(sandbox: Sandbox) -> Reached:
    """Look through the training step, or the loss where there is none, and through what it holds."""
    found = Reached(networks={"model": sandbox.model})
    if sandbox.optimizer is not None and not sandbox.owns_optimizer:
        _add_given(found.optimizers, sandbox.optimizer)
    if sandbox.scheduler is not None:
        found.schedulers["scheduler"] = sandbox.scheduler
    own = (sandbox.loss_fn, sandbox.train_step if sandbox.train_step is not None else sandbox.compute_loss)
    others: dict[str, nn.Module] = {}
    for root, label in zip(own, ("loss_fn", "train_step"), strict=True):
        for name, part in walk([(label, root)], _inside, skip=_SKIPPED, depth=_DEPTH, most=_MOST):
            _sort(found, others, name, part)
    _add_networks(found, others)
    return found


def _sort(found: Reached, networks: dict[str, nn.Module], name: str, part: Any) -> None:
    if isinstance(part, types.FunctionType) and is_users_function(part):
        found.named |= names_used(part.__code__) | set(part.__code__.co_freevars)
    if isinstance(part, nn.Module):
        networks.setdefault(name if name != "train_step" else type(part).__name__, part)
    elif _is_optimizer(part):
        _add_once(found.optimizers, name, innermost(part))
    elif isinstance(part, torch.optim.lr_scheduler.LRScheduler):
        _add_once(found.schedulers, name, part)
    elif isinstance(part, torch.amp.GradScaler):
        found.scalers.append(part)
    elif isinstance(part, torch.Tensor) and part.requires_grad and part.is_leaf:
        found.tensors.setdefault(name, part)


def _add_networks(found: Reached, others: dict[str, nn.Module]) -> None:
    """Keep the networks with parameters that are not the model, its parts, or parts of another."""
    inside = {id(m) for m in found.networks["model"].modules()}
    for name, module in sorted(others.items(), key=lambda item: -sum(1 for _ in item[1].modules())):
        if id(module) not in inside and any(True for _ in module.parameters()):
            inside |= {id(m) for m in module.modules()}
            found.networks[name] = module
    held = {id(p) for module in found.networks.values() for p in module.parameters()}
    found.tensors = {name: tensor for name, tensor in found.tensors.items() if id(tensor) not in held}


def _inside(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Return what functions, containers and objects of the user's hold, with the names they have there."""
    if isinstance(value, nn.Module):
        if name == "train_step":  # a Lightning-like module whose method is the step
            yield from ((key, part) for key, part in vars(value).items() if not key.startswith("_"))
        return
    if isinstance(value, _PARTS):
        return
    opened = (types.FunctionType, types.MethodType, partial, dict, list, tuple)
    if not isinstance(value, opened) and not is_users_class(type(value)):
        return
    is_container = isinstance(value, (dict, list, tuple))
    for key, part in children_of(value, "owner", "arguments", "cells", "defaults", "globals", most=_ITEMS):
        label = str(key).strip("<>") if not is_container else f"{name}[{key!r}]"
        yield label or name, part


def _is_optimizer(part: Any) -> bool:
    return isinstance(part, torch.optim.Optimizer) or (
        hasattr(part, "param_groups") and callable(getattr(part, "step", None))
    )


def innermost(optimizer: Any) -> Any:
    """Return the optimizer inside of wrappers, as accelerate makes them."""
    inner = getattr(optimizer, "__dict__", {}).get("optimizer")
    return innermost(inner) if isinstance(inner, torch.optim.Optimizer) else optimizer


def _add_given(known: dict[str, Any], optimizer: Any) -> None:
    """Add the optimizer that was passed, or each of several by its place."""
    if not isinstance(optimizer, SeveralOptimizers):
        known["optimizer"] = innermost(optimizer)
        return
    for place, part in optimizer.parts.items():
        known[f"optimizer[{place!r}]"] = innermost(part)


def _add_once(known: dict[str, Any], name: str, part: Any) -> None:
    if all(part is not other for other in known.values()):
        known[name if name not in known else f"{name}_{len(known)}"] = part
