"""Terms of a recorded loss that compare a network's outputs, and through which no parameter gets a gradient."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nbdebug.experiments.tape.ops import Op, Recording
from nbdebug.experiments.tape.read import LOSSES
from nbdebug.experiments.tape.taint import Taint

__all__ = ["ConstantTerm", "constant_terms"]

_NETWORK = Taint.PARAMETER | Taint.FROZEN | Taint.UNSEEN
_SUMS = ("add", "add_", "radd", "sub", "sub_", "rsub", "sum", "stack")
_WEIGHED = ("mul", "mul_", "rmul", "div", "div_", "neg", "mean", "sum", "to", "float", "double", "squeeze", "clone")


@dataclass(frozen=True)
class ConstantTerm:
    """One loss function whose value is added to the loss although none of its arguments has a gradient."""

    op: str
    arguments: int  # how many of them a network has computed
    module: str


def constant_terms(recording: Recording) -> Iterator[ConstantTerm]:
    """Yield the loss functions without a gradient that are added to what has one."""
    roots = recording.roots or recording.differentiated
    added = {number for root in roots if recording.values[root].requires_grad for number in _added(recording, root)}
    for number in sorted(added):
        op = _compared(recording, number)
        computed = [n for n in op.inputs if recording.values[n].taint & _NETWORK] if op is not None else []
        if op is not None and computed:
            yield ConstantTerm(op.name, len(computed), op.module)


def _added(recording: Recording, root: int) -> Iterator[int]:
    """Walk back over scalars with a gradient to what is added to them and has none."""
    seen, stack = set[int](), [root]
    while stack:
        number = stack.pop()
        op = recording.producer(number)
        if op is None or number in seen:
            continue
        seen.add(number)
        for part in op.inputs:
            value = recording.values[part]
            if value.requires_grad and (value.numel == 1 or op.name in ("sum", "mean")) and op.name not in LOSSES:
                stack.append(part)
            elif op.name in _SUMS and not value.requires_grad and value.numel == 1:
                yield part


def _compared(recording: Recording, number: int) -> Op | None:
    """Walk back over weights and signs to the loss function that made a number; None where there is none."""
    op = recording.producer(number)
    while op is not None and op.name not in LOSSES:
        inputs = [n for n in op.inputs if recording.values[n].taint & _NETWORK]
        op = recording.producer(inputs[0]) if op.name in _WEIGHED and len(inputs) == 1 else None
    return op
