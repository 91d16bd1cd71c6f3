"""Representations of a recorded run that are scaled to length 1 over one axis, and compared over another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nbdebug.experiments.axes import PRODUCTS, is_contracted, moved_axis
from nbdebug.experiments.tape import Taint
from nbdebug.experiments.tape.ops import Op, Recording, Use

__all__ = ["NormalizedAxis", "normalized_axes"]

_NORMS = ("norm", "vector_norm", "linalg_norm", "linalg_vector_norm")
_POINTWISE = ("clamp", "clamp_", "clamp_min", "clamp_min_", "add", "radd", "expand_as")
_SCALED = ("mul", "rmul", "div", "mul_", "div_")
_FOLLOWED = 8  # ops between the normalization and the product


@dataclass(frozen=True)
class NormalizedAxis:
    """Two operands of a product that were normalized over an axis which the product does not sum over."""

    shape: tuple[int, ...]
    axis: int
    product: str
    module: str


def normalized_axes(recording: Recording) -> tuple[int, list[NormalizedAxis]]:
    """Return how many products compare normalized representations, and those that sum over another axis."""
    uses = _uses(recording)
    operands: dict[int, dict[int, tuple[bool, tuple[int, ...], int]]] = {}
    for op in recording.ops:
        for number, axis in _normalizations(recording, op):
            shape = recording.values[number].shape
            for product, use, summed in _products(recording, uses, number, axis):
                operands.setdefault(product.index, {})[use] = (summed, shape, axis)
    found = []
    for index, sides in operands.items():
        product = recording.ops[index]
        if set(sides) != {use.number for use in _given(product)}:
            continue  # only one of both is normalized, as rows that weights are applied to
        if not any(summed for summed, _, _ in sides.values()):
            _, shape, axis = next(iter(sides.values()))
            found.append(NormalizedAxis(shape, axis, product.name, product.module))
    return len(operands), found


def _given(op: Op) -> list[Use]:
    parts: list[Any] = []
    for part in op.args:
        parts += part if isinstance(part, (list, tuple)) else [part]
    return [part for part in parts if isinstance(part, Use)]


def _uses(recording: Recording) -> dict[int, list[Op]]:
    found: dict[int, list[Op]] = {}
    for op in recording.ops:
        for number in dict.fromkeys(op.inputs):
            found.setdefault(number, []).append(op)
    return found


def _normalizations(recording: Recording, op: Op) -> Iterator[tuple[int, int]]:
    """Yield what an op has scaled to length 1, if that is a representation of data, and over which axis."""
    if len(op.outputs) != 1:
        return
    made = recording.values[op.outputs[0]]
    axis: Any = None
    if op.name == "normalize" and op.kwargs.get("p", op.args[1] if len(op.args) > 1 else 2.0) == 2.0:
        axis = op.kwargs.get("dim", op.args[2] if len(op.args) > 2 else 1)
    elif op.name in ("div", "div_") and len(op.args) == 2 and all(isinstance(part, Use) for part in op.args):
        axis = _divided_by_norm(recording, op.args[0].number, op.args[1].number)
    is_computed = bool(made.taint & Taint.BATCH) and bool(made.taint & (Taint.PARAMETER | Taint.FROZEN))
    if isinstance(axis, int) and is_computed and len(made.shape) > 1:
        yield made.number, axis % len(made.shape)


def _divided_by_norm(recording: Recording, number: int, divisor: int) -> int | None:
    """Return the axis of the norm that a value is divided by, if it is the value's own."""
    op = recording.producer(divisor)
    for _ in range(3):
        if op is not None and op.name in _POINTWISE and op.inputs:
            op = recording.producer(op.inputs[0])
    if op is None or op.name not in _NORMS or op.inputs[:1] != (number,):
        return None
    names = ("input", "p", "dim", "keepdim")  # linalg calls the second one `ord`
    given = dict(zip(names, op.args, strict=False)) | op.kwargs
    dim, order = given.get("dim"), given.get("ord", given.get("p", 2))
    dim = dim[0] if isinstance(dim, (tuple, list)) and len(dim) == 1 else dim
    return dim if isinstance(dim, int) and order in (2, 2.0, None, "fro") and given.get("keepdim") is True else None


def _products(
    recording: Recording, uses: dict[int, list[Op]], number: int, axis: int
) -> Iterator[tuple[Op, int, bool]]:
    """Follow an axis to the products that read it; yield each, the operand, and whether it sums over the axis."""
    stack, seen = [(number, axis, 0)], set[int]()
    while stack:
        current, place, depth = stack.pop()
        if current in seen or depth > _FOLLOWED:
            continue
        seen.add(current)
        for op in uses.get(current, ()):
            if op.name in PRODUCTS:
                summed = is_contracted(recording, op, current, place)
                if summed is not None:
                    yield op, current, summed
                continue
            moved = _scaled(recording, op, current, place) or moved_axis(recording, op, current, place)
            moved = moved or _part(recording, op, current, place)
            if moved is not None:
                stack.append((*moved, depth + 1))


def _scaled(recording: Recording, op: Op, number: int, axis: int) -> tuple[int, int] | None:
    """Follow a value through a multiplication with one number, such as a temperature."""
    others = [n for n in op.inputs if n != number]
    if op.name not in _SCALED or len(op.outputs) != 1 or any(recording.values[n].numel != 1 for n in others):
        return None
    return op.outputs[0], axis


def _part(recording: Recording, op: Op, number: int, axis: int) -> tuple[int, int] | None:
    """Follow a value through a concatenation over another axis, or over the one that was normalized."""
    if op.name not in ("cat", "concat") or len(op.outputs) != 1:
        return None
    made = recording.values[op.outputs[0]]
    return (made.number, axis) if len(made.shape) == len(recording.values[number].shape) else None
