"""The summands of a loss: walk back through sums, signs, weights, and stacks of scalars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from nbdebug.experiments.tape.ops import Op, Recording, Use, Value
from nbdebug.experiments.tape.taint import Taint

__all__ = ["is_weighted", "summands"]

_PASSED_ON = (
    "to", "float", "double", "half", "bfloat16", "clone", "contiguous", "view", "reshape", "squeeze", "unsqueeze",
    "mean", "sum", "type", "type_as", "cpu", "cuda", "flatten", "nanmean", "__getitem__", "unbind",
)  # fmt: skip
_ADDED, _SCALED = ("add", "add_", "radd", "sub", "sub_", "rsub"), ("mul", "mul_", "rmul", "div", "div_", "rdiv")


def summands(recording: Recording, number: int, factor: float = 1.0) -> Iterator[tuple[int, float]]:
    """Walk back from a scalar over sums, signs and constant or learned weights to what they weigh, with the factors."""
    op = recording.producer(number)
    parts = _parts(recording, op, number) if op is not None else []
    if not parts:
        yield number, factor
    for part, share in parts:
        yield from summands(recording, part, factor * share)


def _parts(recording: Recording, op: Op, number: int) -> list[tuple[int, float]]:
    """Return what a scalar is the weighted sum of; nothing where it is made in another way."""
    values = recording.values
    graded = [n for n in op.inputs if values[n].requires_grad]
    if op.name in ("sum", "mean") and len(graded) == 1 and values[graded[0]].numel > 1:
        return _stacked(recording, graded[0], op.name) or _elementwise(recording, op, graded[0])
    if not graded or any(values[n].numel != 1 for n in graded) or op.is_custom:
        return []
    if op.name in _ADDED and "alpha" not in op.kwargs:
        return _added(op, graded)
    if op.name == "neg":
        return [(graded[0], -1.0)]
    if op.name in _SCALED:
        return _scaled(recording, op)
    return [(graded[0], 1.0)] if op.name in _PASSED_ON and len(graded) == 1 else []


def _added(op: Op, graded: list[int]) -> list[tuple[int, float]]:
    signs = {"sub": (1.0, -1.0), "sub_": (1.0, -1.0), "rsub": (-1.0, 1.0)}.get(op.name, (1.0, 1.0))
    given = [*op.args, *op.kwargs.values()]
    pairs = zip(given, signs, strict=False)
    return [(part.number, sign) for part, sign in pairs if isinstance(part, Use) and part.number in graded]


def _scaled(recording: Recording, op: Op) -> list[tuple[int, float]]:
    """Return the one operand that a constant or a learned weight is multiplied with, and that factor."""
    parts = [*op.args, *op.kwargs.values()][:2]
    if len(parts) < 2 or "rounding_mode" in op.kwargs:
        return []
    for this, other in (parts, parts[::-1]):
        factor = _constant(recording, other)
        if isinstance(this, Use) and factor is not None and recording.values[this.number].requires_grad:
            divides = op.name.startswith("div") or op.name == "rdiv"
            if divides and (this is parts[1]) == (op.name != "rdiv"):
                return []
            return [(this.number, 1 / factor if divides and factor else factor)]
    return []


def _constant(recording: Recording, part: Any) -> float | None:
    if isinstance(part, (int, float)):
        return float(part)
    value = recording.values[part.number] if isinstance(part, Use) else None
    if value is None or value.numel != 1 or value.tensor is None:
        return None
    learned = bool(value.taint & Taint.PARAMETER) and not value.taint & Taint.BATCH
    return float(value.tensor.detach()) if learned or not value.requires_grad else None


def _elementwise(recording: Recording, op: Op, number: int) -> list[tuple[int, float]]:
    """Return the summands of a tensor that is reduced as a whole, as in `(reconstruction + divergence).mean()`."""
    size = recording.values[number].numel
    parts = list(_same_size(recording, number, 1.0 if op.name == "sum" else 1 / size))
    return parts if len(parts) > 1 and recording.values[op.outputs[0]].numel == 1 else []


def _same_size(recording: Recording, number: int, factor: float) -> Iterator[tuple[int, float]]:
    op, values = recording.producer(number), recording.values
    graded = [n for n in op.inputs if values[n].requires_grad] if op is not None else []
    if op is None or any(values[n].numel != values[number].numel for n in graded):
        parts = []
    elif op.name in _ADDED and len(graded) > 1 and "alpha" not in op.kwargs:
        parts = _added(op, graded)
    elif op.name in _SCALED:
        parts = _scaled(recording, op)
    else:
        parts = []
    if not parts:
        yield number, factor
    for part, share in parts:
        yield from _same_size(recording, part, factor * share)


def _stacked(recording: Recording, number: int, how: str) -> list[tuple[int, float]]:
    """Return the scalars that a vector was stacked of, with the weights that it was multiplied with since."""
    weights: torch.Tensor | float = 1.0
    op = recording.producer(number)
    while op is not None and op.name in (*_ADDED, *_SCALED) and (inner := _vector(recording, op)) is not None:
        number, weight = inner
        weights, op = weights * weight, recording.producer(number)
    if op is None or not _is_stack(recording, op):
        return []
    count = len(op.inputs)
    each = torch.as_tensor(weights).expand(count) / (1 if how == "sum" else count)
    pairs = zip(op.inputs, each.tolist(), strict=True)
    return [(n, factor) for n, factor in pairs if recording.values[n].requires_grad]


def _is_stack(recording: Recording, op: Op) -> bool:
    return op.name in ("stack", "cat", "hstack") and all(recording.values[n].numel == 1 for n in op.inputs)


def _vector(recording: Recording, op: Op) -> tuple[int, torch.Tensor | float] | None:
    """Return the operand of an elementwise op that comes from data, and what the other one multiplies it with."""
    parts = [*op.args, *op.kwargs.values()][:2]
    fed = [part for part in parts if isinstance(part, Use) and recording.values[part.number].taint & Taint.BATCH]
    if len(fed) != 1 or len(parts) != 2 or (op.name in ("sub", "sub_", "rsub") and fed[0] is parts[1]):
        return None
    other = parts[1 - parts.index(fed[0])]
    if op.name in _ADDED:
        return fed[0].number, 1.0
    if op.name.startswith(("div", "rdiv")) or not isinstance(other, (Use, int, float)):
        return None
    weight = recording.values[other.number].tensor if isinstance(other, Use) else float(other)
    return (
        (fed[0].number, weight.detach() if isinstance(weight, torch.Tensor) else weight) if weight is not None else None
    )


def is_weighted(recording: Recording, value: Value) -> bool:
    """Whether a vector is stacked of losses, so that what is multiplied with it are weights of terms."""
    op = recording.producer(value.number)
    if op is not None and op.name in (*_ADDED, *_SCALED) and (inner := _vector(recording, op)) is not None:
        return is_weighted(recording, recording.values[inner[0]])
    return op is not None and _is_stack(recording, op)
