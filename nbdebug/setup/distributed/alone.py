"""Isolate experiments on a copy: their collectives see a group of one process.

A model or a loss may add up over all processes, as SyncBatchNorm does. Experiments go their own way on each process, so
that such a call would meet a call of the user's own training, or wait for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import cache
from typing import Any

import torch.distributed as dist
from torch import nn

from nbdebug.core.torch_compat import process_groups, single_process_group

__all__ = ["groups_in", "lone_group", "look_wrapped", "stand_alone"]


def stand_alone(on_close: Callable[[Callable[[], Any]], None]) -> None:
    """Make the default group look like a group of one process; how to undo it is told before it is done."""
    if not dist.is_available() or not dist.is_initialized():
        return
    lone, store = _lone_group()
    world = process_groups()
    before = world.default_pg
    if before is lone:
        return

    def put_back() -> None:
        world.default_pg = before
        world.pg_map.pop(lone, None)
        world.pg_group_ranks.pop(lone, None)

    on_close(put_back)
    world.pg_map[lone] = ("gloo", store)
    world.pg_group_ranks[lone] = {0: 0}
    world.default_pg = lone


def groups_in(modules: Iterable[nn.Module]) -> list[Any]:
    """Return the groups of processes that modules hold as attributes: a copy must hold the lone group in their
    place.
    """
    if not dist.is_available() or not dist.is_initialized():
        return []
    held = (value for module in modules for value in vars(module).values())
    return [value for value in held if isinstance(value, dist.ProcessGroup)]


def look_wrapped(wrapper: nn.Module, sandbox: nn.Module) -> None:
    """Let a copy of the model inside a DistributedDataParallel answer to what a training step asks of the wrapper."""
    if isinstance(wrapper, nn.parallel.DistributedDataParallel):
        for name, value in (("module", sandbox), ("no_sync", nullcontext), ("require_backward_grad_sync", True)):
            if not hasattr(sandbox, name):
                vars(sandbox)[name] = value  # past nn.Module, which would make the copy a part of itself


def lone_group() -> Any:
    """Return the group of this process alone."""
    return _lone_group()[0]


@cache
def _lone_group() -> tuple[Any, Any]:
    return single_process_group("nbdebug_alone")
