"""The entries of a tape: ops with their operands, and values, which are tensors at one moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from nbdebug.experiments.tape.taint import Taint
from nbdebug.setup.nested import tensors_in

__all__ = ["Op", "Recording", "Use", "Value", "op_name", "tensors_of"]


@dataclass(frozen=True)
class Use:
    """Stands for a tensor among the stored arguments of an op: the number of its value."""

    number: int


@dataclass
class Value:
    """A tensor at one moment; an in-place op makes a new value of the same tensor.

    `tensor` is kept where a replay could need it, and is None otherwise. `is_live` says that it depends on something
    that was computed from parameters, by a gradient or not.
    """

    number: int
    taint: Taint
    sources: frozenset[str]
    shape: tuple[int, ...]
    requires_grad: bool
    is_live: bool
    producer: int = -1  # the op that made it; -1 for what the run began with
    tensor: torch.Tensor | None = None

    @property
    def numel(self) -> int:
        """The number of elements."""
        return int(torch.Size(self.shape).numel())


@dataclass
class Op:
    """One call of a torch function: what it was given, what it made, and the modes that were in force.

    `changed` maps the values of tensors that it modified in place, before, to those after.
    """

    index: int
    name: str
    func: Callable[..., Any]
    args: Any
    kwargs: Any
    inputs: tuple[int, ...]
    outputs: tuple[int, ...] = ()
    changed: dict[int, int] = field(default_factory=dict)
    module: str = ""
    has_grad: bool = True
    autocast: tuple[str, torch.dtype] | None = None
    random_state: tuple[torch.Generator, torch.Tensor] | None = None
    is_custom: bool = False  # an autograd.Function

    @property
    def made(self) -> tuple[int, ...]:
        """The values that it made: its outputs, and what it modified in place."""
        return tuple(dict.fromkeys((*self.outputs, *self.changed.values())))


@dataclass
class Recording:
    """All ops and values of one run, and the losses that it computed."""

    ops: list[Op] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    leaves: dict[int, int] = field(default_factory=dict)  # by the id of a tensor that no op made: its first value
    roots: list[int] = field(default_factory=list)  # what backward() started from, or the loss that was returned
    differentiated: list[int] = field(default_factory=list)  # what autograd.grad took the gradient of parameters of
    escapes: list[tuple[int, int]] = field(default_factory=list)  # a value became a Python number before op so-and-so
    gradients: dict[str, torch.Tensor] = field(default_factory=dict)  # of parameters, as the optimizer finds them

    def producer(self, number: int) -> Op | None:
        """Return the op that made a value; None for what the run began with."""
        index = self.values[number].producer
        return self.ops[index] if index >= 0 else None

    def tensor_of(self, part: Any) -> torch.Tensor | None:
        """Return the tensor that an argument of an op stands for; None for a constant."""
        return self.values[part.number].tensor if isinstance(part, Use) else None


def tensors_of(*values: Any) -> list[torch.Tensor]:
    """List the tensors among arguments or results of a torch function, each once."""
    return list({id(tensor): tensor for tensor in tensors_in(*values)}.values())


_OPERATORS = ("add", "sub", "mul", "div", "truediv", "floordiv", "pow", "matmul", "and", "or", "xor", "mod")


def op_name(func: Any) -> str:
    """Return the name of a torch function; `a - b`, `b.__rsub__(a)` and `a -= b` are `sub`, `rsub` and `sub_`."""
    name = str(getattr(func, "__name__", type(func).__name__))
    if name == "__get__":
        return str(getattr(getattr(func, "__self__", None), "__name__", ""))
    if not name.startswith("__"):
        return name
    inner = name.strip("_")
    for prefix, form in (("", "{}"), ("r", "r{}"), ("i", "{}_")):
        for known in _OPERATORS:
            if inner == prefix + known:
                return form.format("div" if known == "truediv" else known)
    return name
