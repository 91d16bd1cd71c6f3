"""Follow one axis of a tensor through the ops of a recorded run."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from nbdebug.experiments.tape.ops import Op, Recording, Use

__all__ = ["KEEPS_VALUES", "PRODUCTS", "contracted", "is_contracted", "moved_axis"]

PRODUCTS = ("matmul", "rmatmul", "bmm", "mm", "einsum", "baddbmm")
KEEPS_VALUES = (  # ops that pass weights on, each place as it was
    "dropout", "to", "float", "half", "double", "bfloat16", "type", "type_as", "contiguous", "clone", "masked_fill",
    "masked_fill_", "nan_to_num", "detach", "cpu", "cuda",
)  # fmt: skip


def moved_axis(recording: Recording, op: Op, number: int, axis: int) -> tuple[int, int] | None:
    """Return the value that an op makes of another one, and where one of its axes is then; None if it is lost."""
    if len(op.outputs) != 1 or not op.args or op.args[0] != Use(number):
        return None
    made, before = op.outputs[0], recording.values[number].shape
    after = recording.values[made].shape
    if op.name in KEEPS_VALUES:
        return (made, axis) if before == after else None
    if op.name in ("transpose", "swapaxes", "swapdims", "permute", "mT", "T", "t"):
        order = _order(op, len(before))
        return (made, order.index(axis)) if order is not None else None
    if op.name == "__getitem__":
        index = op.args[1] if isinstance(op.args[1], tuple) else (op.args[1],)
        is_full = all(part is None or part == slice(None) for part in index if not isinstance(part, Use))
        if not is_full or any(isinstance(part, Use) for part in index):
            return None
        before_it = [i for i, part in enumerate(index) if part is not None][: axis + 1]
        return made, before_it[axis] if axis < len(before_it) else axis + sum(part is None for part in index)
    if op.name in ("view", "reshape", "flatten", "unflatten", "unsqueeze", "squeeze"):
        ahead = prod(before[:axis])
        places = [i for i, size in enumerate(after) if size == before[axis] and prod(after[:i]) == ahead]
        return (made, places[0]) if len(places) == 1 else None
    return None


def _order(op: Op, dims: int) -> list[int] | None:
    """Return which axis comes where after a transposition."""
    order = list(range(dims))
    if op.name in ("T", "t"):
        return order[::-1]
    given: Any = (-2, -1) if op.name == "mT" else (*op.args[1:], *op.kwargs.values())
    if op.name == "permute":
        listed = given[0] if len(given) == 1 else given
        return [int(d) % dims for d in listed] if isinstance(listed, Sequence) else None
    if len(given) != 2 or not all(isinstance(d, int) for d in given):
        return None
    one, other = (d % dims for d in given)
    order[one], order[other] = order[other], order[one]
    return order


def is_contracted(recording: Recording, op: Op, number: int, axis: int) -> bool | None:
    """Whether a product sums over this axis of one of its operands; None where it cannot be told."""
    operands = _operands(op)
    if Use(number) not in operands:
        return None
    place, dims = operands.index(Use(number)), len(recording.values[number].shape)
    if op.name == "einsum":
        letters = _letters(op)
        return None if letters is None else letters[0][place][axis] not in letters[1]
    left = place == (1 if op.name == "rmatmul" else 0)
    return bool(axis == dims - 1 if left or dims == 1 else axis == dims - 2)


def contracted(recording: Recording, op: Op) -> int | None:
    """Return over how many entries a product sums."""
    operands = [recording.values[use.number].shape for use in _operands(op)]
    if len(operands) != 2:
        return None
    if op.name == "einsum":
        letters = _letters(op)
        if letters is None:
            return None
        sizes = {letter: size for names, shape in zip(letters[0], operands, strict=True)
                 for letter, size in zip(names, shape, strict=True)}  # fmt: skip
        return prod(size for letter, size in sizes.items() if letter not in letters[1])
    first = operands[1 if op.name == "rmatmul" else 0]
    return first[-1] if first else None


def _operands(op: Op) -> list[Use]:
    found: list[Use] = []
    for part in (*op.args, *op.kwargs.values()):
        found += [use for use in (part if isinstance(part, (list, tuple)) else [part]) if isinstance(use, Use)]
    return found[1:] if op.name == "baddbmm" else found


def _letters(op: Op) -> tuple[list[str], str] | None:
    """Return the letters of each operand of an einsum, and those of its result."""
    equation = op.args[0] if op.args else None
    if not isinstance(equation, str) or "." in equation or "->" not in equation:
        return None
    inputs, result = equation.replace(" ", "").split("->")
    names = inputs.split(",")
    return (names, result) if len(names) == len(_operands(op)) == 2 else None
