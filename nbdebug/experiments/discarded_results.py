"""Ops of a recorded run whose result nobody reads although their operand goes on being used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from nbdebug.experiments.capture import tapped
from nbdebug.experiments.tape.ops import Op, Recording
from nbdebug.experiments.tape.taint import Taint
from nbdebug.setup.nested import tensors_in

__all__ = ["Discarded", "Returned", "discarded_results", "doubled_values", "returned_values"]

EFFECTS = (  # out-of-place ops that have a twin in place, and that nobody calls to look at a number
    "masked_fill", "masked_scatter", "scatter", "scatter_add", "index_add", "index_fill", "index_copy", "index_put",
    "clamp", "clip", "relu", "leaky_relu", "elu", "gelu", "dropout", "add", "radd", "sub",
)  # fmt: skip
SUMS = ("add", "radd")
TWO_VALUES = (*SUMS, "sub")


@dataclass(frozen=True)
class Discarded:
    """An op and its module; `count` says how many such there are in all."""

    op: str
    module: str
    shape: tuple[int, ...]
    count: int = 1


@dataclass
class Returned:
    """The tensors that modules return or keep, but for the only result of a module without parts; held alive."""

    tensors: list[torch.Tensor]

    @property
    def ids(self) -> set[int]:
        """Their ids."""
        return {id(tensor) for tensor in self.tensors}


@contextmanager
def returned_values(model: nn.Module) -> Iterator[Returned]:
    """Collect what the modules return or keep as attributes while they run in here."""
    found = Returned([])

    def leave(path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        kept = tensors_in([value for name, value in vars(module).items() if not name.startswith("_")])
        is_single = isinstance(output, torch.Tensor) and path and not any(True for _ in module.children())
        found.tensors.extend([*kept, *([] if is_single else tensors_in(output))])

    with tapped(model, after=leave):
        yield found


def discarded_results(recording: Recording, returned: Returned) -> tuple[Discarded, ...]:
    """List the ops inside of modules whose result is read by no op, returned by no module, and kept nowhere.

    One of its operands has to be used again later: the code goes on with the value as it was. Code that the tape cannot
    see into could read anything.
    """
    if any(value.taint & Taint.UNSEEN for value in recording.values):
        return ()
    last_use: dict[int, int] = {}
    for op in recording.ops:
        last_use.update(dict.fromkeys(op.inputs, op.index))
    read = {*recording.roots, *recording.differentiated, *(number for number, _ in recording.escapes)}
    found = [
        Discarded(op.name, op.module, recording.values[op.outputs[0]].shape)
        for op in recording.ops
        if _is_discarded(recording, op, last_use, read, returned.ids)
    ]
    return tuple(Discarded(one.op, one.module, one.shape, len(found)) for one in found)


def _is_discarded(recording: Recording, op: Op, last_use: dict[int, int], read: set[int], returned: set[int]) -> bool:
    if (
        op.name not in EFFECTS
        or not op.module
        or op.changed
        or len(op.outputs) != 1
        or op.kwargs.get("out") is not None
    ):
        return False
    number = op.outputs[0]
    value = recording.values[number]
    if number in last_use or number in read or value.tensor is None or not value.requires_grad or not value.shape:
        return False
    if id(value.tensor) in returned or not value.taint & Taint.BATCH:
        return False
    own = [n for n in op.inputs if recording.values[n].shape == value.shape and recording.values[n].requires_grad]
    if op.name in TWO_VALUES and sum(recording.values[n].requires_grad for n in set(op.inputs)) < 2:
        return False  # a number more or less may have been meant for the eye
    return any(last_use[n] > op.index for n in own)


def doubled_values(recording: Recording) -> tuple[Discarded, ...]:
    """List the sums of a value with itself, in programs that add two values of that shape elsewhere."""
    sums = [op for op in recording.ops if op.name in SUMS and op.module and op.has_grad and len(op.outputs) == 1]
    live = [op for op in sums if all(recording.values[n].requires_grad for n in op.inputs) and len(op.args) == 2]
    shapes = {recording.values[op.outputs[0]].shape for op in live if len(set(op.inputs)) == 2}
    found = []
    for op in live:
        value = recording.values[op.outputs[0]]
        is_own = len(set(op.inputs)) == 1 and op.args[0] == op.args[1] and value.taint & Taint.BATCH
        if is_own and len(value.shape) > 1 and value.shape in shapes:
            found.append(Discarded(op.name, op.module, value.shape))
    return tuple(Discarded(one.op, one.module, one.shape, len(found)) for one in found)
