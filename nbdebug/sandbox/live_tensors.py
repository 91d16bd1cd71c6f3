"""Recognize the user's own parameters and buffers among the operands of a run, and run on clones in their place."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from nbdebug.core.torch_compat import write_count

__all__ = ["LiveTensors", "named_tensors", "same_values"]


class LiveTensors:
    """The tensors of the live model, by identity and by memory: a view or `.detach()` of one is another object.

    A data set may share memory with a buffer, and a constant may be read by two ways, so that not every use is a leak.
    An operand gets a stand-in with the same values: nothing live can be written while that is found out.
    """

    def __init__(self, live: nn.Module, own: nn.Module) -> None:
        self.parameters = {id(p): name for name, p in live.named_parameters()}
        shared = {_memory(tensor) for tensor in named_tensors(own).values()}
        tensors = named_tensors(live)
        self._buffers = {id(b): name for name, b in live.named_buffers()}
        self._memory = {at: name for name, t in tensors.items() if (at := _memory(t)) and at not in shared}
        self._stand_ins: dict[Any, tuple[str, torch.Tensor, torch.Tensor]] = {}

    def name_of(self, tensor: torch.Tensor) -> str:
        """Return the name of the live tensor whose values these are, or nothing."""
        name = self.parameters.get(id(tensor)) or self._buffers.get(id(tensor))
        return name or (self._memory.get(_memory(tensor), "") if self._memory else "")

    def stand_in(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a clone for this operand: the same one each time, so that what is written to it is read again."""
        at = _memory(tensor)
        key = (at, tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype) if at else id(tensor)
        if key not in self._stand_ins:
            self._stand_ins[key] = (self.name_of(tensor), tensor, tensor.detach().clone())
        return self._stand_ins[key][2]

    @property
    def used(self) -> list[str]:
        """The names of those that a stand-in was given for."""
        return list(dict.fromkeys(name for name, _, _ in self._stand_ins.values()))

    @property
    def written(self) -> list[str]:
        """The names of those that would have other values now, if the run had been on them."""
        return [
            name for name, live, made in self._stand_ins.values() if write_count(made) or not same_values(live, made)
        ]


def named_tensors(model: nn.Module, *, buffers: bool = True) -> dict[str, torch.Tensor]:
    """Return every parameter and buffer, tied ones by each of their names."""
    named: list[tuple[str, torch.Tensor]] = list(model.named_parameters(remove_duplicate=False))
    if buffers:
        named += model.named_buffers(remove_duplicate=False)
    return {name.replace("_orig_mod.", ""): tensor for name, tensor in named}


def same_values(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors are alike to the last value, and NaN where the other is NaN."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.layout is not torch.strided:
        return a is b or torch.equal(a.to_dense(), b.to_dense())
    return torch.equal(a, b) or bool(((a == b) | ((a != a) & (b != b))).all())


def _memory(tensor: torch.Tensor) -> int:
    """Return where the storage of a tensor begins; 0 for those without one: sparse, lazy, inside of vmap."""
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError, ValueError):
        return 0
