"""Exponentials of a recorded run whose argument is the result of one already, or can never be below zero."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from nbdebug.experiments.tape import Taint
from nbdebug.experiments.tape.ops import Op, Recording, Use
from nbdebug.experiments.tape.walk import SAME_VALUES, given_by_name, root_ancestors, tensor_of

__all__ = ["RepeatedExponential", "repeated_exponentials"]

_POSITIVE = ("exp", "softplus")
_NOT_NEGATIVE = (*_POSITIVE, "relu", "sigmoid", "abs", "square", "relu_")
_SCALED = ("mul", "rmul", "div", "add", "radd", "clamp", "clamp_min", "clamp_max", "__getitem__", "chunk", "split")


@dataclass(frozen=True)
class RepeatedExponential:
    """An op that takes the exponential of what `inner` made; `below` is the share of the targets below 1.

    `below` is None where the exponential is not that of a count's rate.
    """

    op: str
    inner: str
    lowest: float
    below: float | None
    module: str


def repeated_exponentials(recording: Recording) -> Iterator[RepeatedExponential]:
    """Yield exponentials of exponentials, and log rates of counts that cannot be negative."""
    used = root_ancestors(recording)
    for op in recording.ops:
        if not op.outputs or op.outputs[0] not in used:
            continue
        if op.name == "exp" and op.inputs and _is_network(recording, op.inputs[0]):
            inner = _made_by(recording, op.inputs[0])
            if inner in _POSITIVE:
                yield RepeatedExponential("exp", inner, _lowest(recording, op.inputs[0]), None, op.module)
        if op.name == "poisson_nll_loss":
            found = _of_counts(recording, op)
            if found is not None:
                yield found


def _of_counts(recording: Recording, op: Op) -> RepeatedExponential | None:
    given = given_by_name(op, ("input", "target", "log_input"))
    predicted, target = given.get("input"), tensor_of(recording, given.get("target"))
    if given.get("log_input", True) is not True or not isinstance(predicted, Use) or target is None:
        return None
    inner = _made_by(recording, predicted.number)
    if inner not in _NOT_NEGATIVE:
        return None
    below = float((target < 1).double().mean())
    return RepeatedExponential(op.name, inner, _lowest(recording, predicted.number), below, op.module)


def _is_network(recording: Recording, number: int) -> bool:
    taint = recording.values[number].taint
    return bool(taint & Taint.PARAMETER) and bool(taint & (Taint.BATCH | Taint.RANDOM))


def _lowest(recording: Recording, number: int) -> float:
    values = tensor_of(recording, Use(number))
    return float(values.min()) if values is not None and values.numel() else float("nan")


def _made_by(recording: Recording, number: int) -> str:
    """Return the op that made a value, without those that keep its sign."""
    op = recording.producer(number)
    while op is not None and op.inputs and (op.name in SAME_VALUES or _keeps_sign(recording, op)):
        op = recording.producer(op.inputs[0])
    return op.name if op is not None else ""


def _keeps_sign(recording: Recording, op: Op) -> bool:
    if op.name not in _SCALED:
        return False
    others = [part for part in (*op.args[1:2], *op.kwargs.values()) if not isinstance(part, (str, torch.dtype))]
    if op.name in ("mul", "rmul", "div", "add", "radd"):
        return all(isinstance(part, (int, float)) and part >= 0 for part in others)
    return op.name not in ("clamp", "clamp_min") or all(
        part is None or isinstance(part, (int, float)) for part in others
    )
