"""A stand-in for a model that is sharded: whole, on this process alone, and no deeper than it has to be.

A copy of the model itself would need all processes to send their pieces, and often more memory than there is. What most
experiments ask, whether the program is right, a shallow model of the same classes answers as well: of a row of equal
blocks two are built, and each weight is drawn from the values of the piece that is here, so that constants stay
constant and scales as they are.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from nbdebug.core.control import Control
from nbdebug.core.torch_compat import count_steps, is_sharding_state, own_modules
from nbdebug.errors import Cancelled
from nbdebug.sandbox import guarded, make_sandbox
from nbdebug.sandbox.copying import refuse_too_large
from nbdebug.setup import Setup, unwrap
from nbdebug.setup.distributed.pieces import is_piece, is_sharded, kind_of, piece_of
from nbdebug.setup.object_walk import children_of

__all__ = ["standing_in"]

KEPT = 2  # of a row of equal blocks


def standing_in(setup: Setup, control: Control) -> tuple[Setup, str]:
    """Return a setup that can be copied in the place of one whose model is sharded, and a sentence that says so.

    Where no stand-in runs, the setup is returned as it is with the reason, and nothing that needs a copy is tried.
    """
    if not is_sharded(setup.model):
        return setup, ""
    named = _named_by_code(setup)
    if named:
        return _without_copy(setup, f"{named} names the sharded model itself; it has to use the one that it is given")
    why = "its forward pass fails on a plain copy"
    for deepest in (KEPT, 0):
        try:
            other, dropped = _built(setup, deepest)
            refuse_too_large(other.model, other.optimizer)
            guarded(lambda made=other: _try(made, control), other.live_parts(), control)  # type: ignore[misc]
        except (KeyboardInterrupt, Cancelled):
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"
            continue
        left_out = f", without {', '.join(dropped[:3])}{' and others' if len(dropped) > 3 else ''}" if dropped else ""
        return other, (
            "The model is sharded: experiments ran on a whole copy of it on each rank"
            f"{left_out}, with weights drawn from the values of the rank's own pieces."
        )
    return _without_copy(setup, why)


def _without_copy(setup: Setup, why: str) -> tuple[Setup, str]:
    other = copy.copy(setup)
    other.checkpoint, other.stands_for = None, setup
    other.no_copy = f"the model is sharded and no whole copy of it can be built ({why})"
    return other, f"Only the data and what the ranks hold were examined: {other.no_copy}."


def _try(setup: Setup, control: Control) -> None:
    sandbox = make_sandbox(setup, control)
    sandbox.run(sandbox.batch())


def _named_by_code(setup: Setup) -> str:
    """Return the function of the user's that reaches the live model by name: on it, every pass is a collective."""
    own = {id(part) for part in (setup.model, unwrap(setup.model))}
    for name in ("train_step", "compute_loss", "loss_parts", "loss_fn"):
        function = getattr(setup, name)
        if function is not None and any(id(v) in own for _, v in children_of(function, "cells", "defaults", "globals")):
            return name
    return ""


def _built(setup: Setup, kept: int) -> tuple[Setup, list[str]]:
    """Return the setup with a plain model, and the paths of the blocks that were left out of it."""
    model = unwrap(setup.model)
    dropped = dict(_spare(model, kept)) if kept else {}
    memo: dict[int, Any] = {id(module): nn.Identity() for module in dropped.values()}
    parts = [module for path, module in model.named_modules() if not path.startswith(tuple(f"{d}." for d in dropped))]
    parts = [module for module in parts if id(module) not in memo]
    with torch.no_grad():
        for parameter in {id(p): p for module in parts for p in module.parameters(recurse=False)}.values():
            if is_piece(parameter):
                memo[id(parameter)] = nn.Parameter(_drawn(parameter), parameter.requires_grad)
    for module in parts:
        kind: Any = kind_of(module)
        memo[id(module)] = kind.__new__(kind)
    for module in parts:
        memo[id(module)].__dict__.update(_attributes(module, memo))
    for path in dropped:
        owner = model.get_submodule(path.rpartition(".")[0])
        own_modules(memo[id(owner)]).pop(path.rpartition(".")[2])
    other = copy.copy(setup)
    memo[id(setup.model)] = other.model = memo[id(model)]
    other.optimizer = _optimizer(setup.optimizer, memo)
    other.scheduler = copy.deepcopy(setup.scheduler, memo)
    other.checkpoint, other.stands_for = None, setup
    return other, list(dropped)


def _spare(model: nn.Module, kept: int) -> Iterator[tuple[str, nn.Module]]:
    """Give the blocks that can be left out: all but the first ones of a row of equal ones."""
    for path, owner in model.named_modules():
        if not isinstance(owner, (nn.Sequential, nn.ModuleList)):
            continue
        row, before = 0, None
        for name, block in owner.named_children():
            kind = _kind(block)
            row, before = (row + 1 if kind == before and kind[1] else 0), kind
            if row >= kept:
                yield f"{path}.{name}" if path else name, block


def _kind(block: nn.Module) -> tuple[type, tuple[Any, ...]]:
    return type(block), tuple((name, tuple(p.shape)) for name, p in block.named_parameters())


def _drawn(parameter: torch.Tensor) -> torch.Tensor:
    """Draw as many values as the whole parameter has from those of the piece that is here."""
    held = piece_of(parameter).detach().reshape(-1)
    count = parameter.numel()  # of the whole
    if not held.numel():  # more processes than rows
        return torch.zeros(parameter.shape, dtype=held.dtype, device=held.device)
    order = torch.randint(len(held), (count,), generator=torch.Generator().manual_seed(count)).to(held.device)
    return held[order].reshape(parameter.shape).clone()


def _attributes(module: nn.Module, memo: dict[int, Any]) -> dict[str, Any]:
    """Copy what a module holds, without what sharding has put there."""
    kept = {name: value for name, value in vars(module).items() if not is_sharding_state(name, value)}
    for name, value in kept.items():
        if name.endswith("_hooks") and isinstance(value, dict):
            kept[name] = type(value)((key, hook) for key, hook in value.items() if not is_sharding_state("", hook))
    return {name: copy.deepcopy(value, memo) for name, value in kept.items()}


def _optimizer(optimizer: Any, memo: dict[int, Any]) -> Any:
    """Return an optimizer of the same kind and settings for the plain parameters, as if it had made no step."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        return None if optimizer is None else copy.deepcopy(optimizer, memo)
    made = memo[id(optimizer)] = type(optimizer).__new__(type(optimizer))
    for name, value in vars(optimizer).items():
        if name == "param_groups":
            groups = [{key: v for key, v in group.items() if key != "params"} for group in value]
            made.param_groups = copy.deepcopy(groups, memo)
            for group, live in zip(made.param_groups, value, strict=True):
                group["params"] = [memo[id(p)] for p in live["params"] if id(p) in memo]
        elif name == "state":
            made.state = defaultdict(dict)
        elif name != "step":
            setattr(made, name, copy.deepcopy(value, memo))
    if "step" in vars(optimizer):
        count_steps(made)
    return made
