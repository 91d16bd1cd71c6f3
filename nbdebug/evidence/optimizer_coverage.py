"""Does the optimizer hold the parameters of this model?"""

from __future__ import annotations

import types
from typing import Any

import torch

from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.setup import Setup, unwrap
from nbdebug.setup.object_walk import children_of
from nbdebug.setup.several import SeveralOptimizers, kind_of_optimizer
from nbdebug.watch.recorder.unoptimized_params import OptimizerCoverage

__all__ = ["OptimizerCoverage", "optimizer_coverage"]


@probe
def optimizer_coverage(setup: Setup) -> OptimizerCoverage:
    """Compare the optimizer's parameters with the model's parameters."""
    if setup.optimizer is None:
        raise NotApplicable("no optimizer was passed")
    named = {n: p for n, p in unwrap(setup.model).named_parameters() if p.requires_grad}
    held = _tensors_of(setup.optimizer)
    other = {key for found in _other_optimizers(setup) for key in _tensors_of(found)}
    own = {id(p) for p in unwrap(setup.model).parameters()}
    of_loss = {id(p) for p in getattr(setup.loss_fn, "parameters", list)()}
    return OptimizerCoverage(
        optimizer=kind_of_optimizer(setup.optimizer),
        held=tuple(name for name, p in named.items() if id(p) in held),
        missing=tuple(name for name, p in named.items() if id(p) not in held and id(p) not in other),
        shapes={name: tuple(p.shape) for name, p in named.items() if not torch.nn.parameter.is_lazy(p)},
        strays=tuple(tuple(p.shape) for key, p in held.items() if key not in own and key not in of_loss),
        elsewhere=tuple(name for name, p in named.items() if id(p) in other and id(p) not in held),
        doubled=_doubled(setup.optimizer),
    )


def _doubled(optimizer: Any) -> tuple[str, ...]:
    """Return the places of those of several optimizers that hold nothing but what one before them holds."""
    parts = list(optimizer.parts.items()) if isinstance(optimizer, SeveralOptimizers) else []
    held = [set(_tensors_of(part)) for _, part in parts]
    return tuple(
        f"optimizer[{place!r}]"
        for index, (place, _) in enumerate(parts)
        if any(held[index] and held[index] == earlier for earlier in held[:index])
    )


def _tensors_of(optimizer: Any) -> dict[int, torch.Tensor]:
    return {id(p): p for group in optimizer.param_groups for p in group["params"]}


def _other_optimizers(setup: Setup) -> list[Any]:
    """Find optimizers that the user's own functions reach for by name, as the loop of two networks does."""
    found = []
    for function in (setup.train_step, setup.compute_loss):
        for value in _reached_by(function):
            parts = (
                value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else [value]
            )
            found += [part for part in parts if isinstance(part, torch.optim.Optimizer)]
    return [optimizer for optimizer in found if optimizer is not setup.optimizer]


def _reached_by(function: Any) -> list[Any]:
    is_method = isinstance(function, types.MethodType)
    holders = [function.__self__, function.__func__] if is_method else [function]
    return [value for holder in holders for _, value in children_of(holder, "cells", "defaults", "globals")]
