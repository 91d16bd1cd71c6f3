"""What a tensor of a run is made of: the batch, trainable parameters, random draws, or tensors from outside."""

from __future__ import annotations

from enum import Flag, auto
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.nested import leaves, name_of

__all__ = ["Origins", "Taint", "read_operands"]

T = TypeVar("T")
_FACTORIES = ("tensor", "as_tensor", "asarray", "from_numpy", "Tensor", "FloatTensor", "LongTensor")


class Taint(Flag):
    """Where the values of a tensor come from; an op's outputs have the taint of all of its operands."""

    NONE = 0
    BATCH = auto()  # computed from the batch
    PARAMETER = auto()  # computed from parameters that are trained
    FROZEN = auto()  # computed from parameters that are not: a teacher, a target network
    RANDOM = auto()  # drawn
    UNSEEN = auto()  # computed by code that the tape cannot see into: TorchScript, vmap, C++


def read_operands(name: str, operands: list[T]) -> list[T]:
    """Return the operands whose values an op reads, without those of which it takes only the shape or the type."""
    if name.endswith("_like") or name.startswith("new_") or name in ("zero_", "fill_", "empty_strided"):
        return operands[1:]
    return operands[:1] if name in ("expand_as", "view_as", "reshape_as", "type_as") else operands


class Origins:
    """The taint of the tensors that a run begins with, and the entry of the batch that they are."""

    def __init__(self, sandbox: Sandbox, batch: Batch) -> None:
        entries = leaves(batch.raw)
        self.batch_size = batch.size
        self._batch = {id(leaf): name_of(path) for path, leaf in entries if isinstance(leaf, torch.Tensor)}
        self._memory = {place: name_of(path) for path, leaf in entries if (place := _address(leaf))}
        self._has_plain_data = any(not isinstance(leaf, torch.Tensor) for _, leaf in entries)
        self._parameters = {id(p) for p in _trained(sandbox)}
        self.left_torch = False  # data went through NumPy or Python numbers, and may come back without a trace

    def of(self, tensor: torch.Tensor) -> tuple[Taint, frozenset[str]]:
        """Return the taint of a tensor that no recorded op has made, and which entries of the batch it holds."""
        if id(tensor) in self._batch:
            return Taint.BATCH, frozenset((self._batch[id(tensor)],))
        if id(tensor) in self._parameters:
            return Taint.PARAMETER, frozenset()
        if tensor.grad_fn is not None:
            return Taint.UNSEEN | Taint.PARAMETER | Taint.BATCH, frozenset()
        if tensor.requires_grad:
            return Taint.PARAMETER, frozenset()
        shared = self._memory.get(_address(tensor))
        if shared is not None:
            return Taint.BATCH, frozenset((shared,))
        return (Taint.FROZEN if isinstance(tensor, nn.Parameter) else Taint.NONE), frozenset()

    def of_factory(self, name: str, made: torch.Tensor) -> tuple[Taint, frozenset[str]]:
        """Return the taint of a tensor that is made of Python or NumPy values."""
        if name not in _FACTORIES:
            return Taint.NONE, frozenset()
        shared = self._memory.get(_address(made))
        if shared is not None:
            return Taint.BATCH, frozenset((shared,))
        from_data = made.dim() > 0 and (self._has_plain_data or self.left_torch)
        return (Taint.BATCH if from_data else Taint.NONE), frozenset()


def _trained(sandbox: Sandbox) -> list[torch.Tensor]:
    modules = [part for part in (sandbox.model, sandbox.loss_fn, sandbox.compute_loss) if isinstance(part, nn.Module)]
    owned = [p for module in modules for p in module.parameters()]
    groups = getattr(sandbox.optimizer, "param_groups", None) or []
    return [p for p in (*owned, *(p for group in groups for p in group["params"])) if p.requires_grad]


def _address(leaf: Any) -> int:
    """Return where an array or a tensor begins in memory; 0 where it has no memory of its own."""
    if isinstance(leaf, np.ndarray):
        return int(leaf.__array_interface__["data"][0])
    if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided or leaf.is_meta or not leaf.numel():
        return 0
    try:
        return leaf.untyped_storage().data_ptr()
    except RuntimeError:  # a tensor that wraps others has no storage
        return 0
