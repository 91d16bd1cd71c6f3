"""The piece of a sharded tensor that this process holds; nothing here is a collective operation.

`fully_shard` and tensor parallelism hold their parameters as DTensors. Nearly every operation on one may speak to all
processes, its `numel` and `shape` are those of the whole, and its piece can be had without asking anybody.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import torch
from torch import nn

from nbdebug.core.torch_compat import meshes_of_data

__all__ = [
    "Place",
    "data_share",
    "has_flat_parameters",
    "is_fully_sharded",
    "is_piece",
    "is_sharded",
    "is_sum_pending",
    "kind_of",
    "piece_of",
    "pieces_in",
    "pieces_of",
    "place_of",
    "whole_of",
]

_WHOLE = (torch.Tensor, nn.Parameter)
Place: TypeAlias = tuple[int, ...]  # of a piece among all pieces of its tensor; empty where every process has the whole


def is_piece(tensor: Any) -> bool:
    """Whether a tensor is a DTensor; where its module was never imported there is none."""
    module: Any = sys.modules.get("torch.distributed.tensor")
    return type(tensor) not in _WHOLE and module is not None and isinstance(tensor, module.DTensor)


def piece_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the piece of a DTensor that this process holds, over the same memory; anything else as it is."""
    if type(tensor) in _WHOLE or not is_piece(tensor):
        return tensor
    with torch.no_grad():
        piece: torch.Tensor = tensor.to_local()  # type: ignore[attr-defined]
    return piece


def pieces_of(tensors: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """Return the pieces of several; of a sum that the processes have not added up yet there is none."""
    return [None if t is None or is_sum_pending(t) else piece_of(t) for t in tensors]


def is_sum_pending(tensor: torch.Tensor) -> bool:
    """Whether what each process holds has still to be added up, so that no piece says anything by itself."""
    return is_piece(tensor) and any(one.is_partial() for one in tensor.placements)  # type: ignore[attr-defined]


def whole_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return a tensor if this process holds all of it; None of a part or of a sum that is pending."""
    if type(tensor) in _WHOLE or not is_piece(tensor):
        return tensor
    return piece_of(tensor) if all(one.is_replicate() for one in tensor.placements) else None  # type: ignore[attr-defined]


def pieces_in(tensor: torch.Tensor) -> int:
    """Return into how many pieces a tensor is cut; each may be held by several processes."""
    return math.prod(tensor.device_mesh.size(dim) for dim in _cut(tensor)) if is_piece(tensor) else 1  # type: ignore[attr-defined]


def place_of(tensor: torch.Tensor) -> Place:
    """Return the place of this process's piece among all."""
    if not is_piece(tensor):
        return ()
    here = tensor.device_mesh.get_coordinate()  # type: ignore[attr-defined]
    return tuple(here[dim] for dim in _cut(tensor)) if here is not None else (-1,)


def _cut(tensor: Any) -> list[int]:
    return [dim for dim, placement in enumerate(tensor.placements) if not placement.is_replicate()]


def is_sharded(model: nn.Module) -> bool:
    """Whether any parameter of a model is a DTensor."""
    return "torch.distributed.tensor" in sys.modules and any(map(is_piece, model.parameters()))


def is_fully_sharded(module: nn.Module) -> bool:
    """Whether `fully_shard` was called on this module, which gathers its parameters for each pass."""
    sharding: Any = sys.modules.get("torch.distributed.fsdp")
    return sharding is not None and isinstance(module, getattr(sharding, "FSDPModule", ()))


def has_flat_parameters(module: nn.Module) -> bool:
    """Whether a part of a model is wrapped in the older FullyShardedDataParallel."""
    sharding: Any = sys.modules.get("torch.distributed.fsdp")
    return sharding is not None and any(isinstance(m, sharding.FullyShardedDataParallel) for m in module.modules())


def kind_of(module: nn.Module) -> type:
    """Return the class that a module had before `fully_shard` made another one of it."""
    kind = type(module)
    return kind.__mro__[2] if is_fully_sharded(module) and len(kind.__mro__) > 3 else kind


def data_share(modules: Iterable[nn.Module]) -> int | None:
    """Return which part of the data this process is to train on; None where nothing says.

    Processes that hold pieces of one computation, as tensor parallelism cuts it, have to be given the same batch. Of a
    mesh of several dimensions, those that `fully_shard` works along are those of the data.
    """
    every = [part for module in modules for part in module.modules()]
    meshes = [mesh for part in every if is_fully_sharded(part) for mesh in meshes_of_data(part)]
    if not meshes:
        return 0 if any(map(is_sharded, every)) else None  # tensor parallelism alone: one batch for all
    share = 0
    for dim, here in enumerate(meshes[0].get_coordinate() or ()):
        share = share * meshes[0].size(dim) + here
    return share
