"""Weights of samples or steps that a recorded run multiplies with a value that was averaged over these before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from nbdebug.experiments.tape import Taint
from nbdebug.experiments.tape.ops import Op, Recording, Use
from nbdebug.experiments.tape.read import LOSSES
from nbdebug.experiments.tape.walk import root_ancestors, tensor_of

__all__ = ["ReducedWeights", "reduced_weights"]

FEWEST = 4  # weights: fewer may be those of terms
_PASSED = ("neg", "squeeze", "unsqueeze", "view", "reshape", "to", "float", "double", "clone", "expand", "expand_as")
_SCALED = ("mul", "rmul", "div")
_REDUCED = ("mean", "sum", "nanmean")
_FOLLOWED = 4  # ops between the reduction and the product


@dataclass(frozen=True)
class ReducedWeights:
    """A product of weights, one for each entry, with one number that all these entries were reduced to."""

    op: str
    reduction: str
    weights: int
    zeros: int  # weights of exactly 0, as a mask has
    sources: tuple[str, ...]
    module: str


def reduced_weights(recording: Recording) -> Iterator[ReducedWeights]:
    """Yield the products in which each weight meets the same number, all of which is then summed again."""
    used = root_ancestors(recording)
    for op in recording.ops:
        if op.name not in ("mul", "rmul", "mul_") or len(op.outputs) != 1 or op.outputs[0] not in used:
            continue
        parts = [part for part in op.args if isinstance(part, Use)]
        for reduced, weights in (parts, parts[::-1]) if len(parts) == 2 else ():
            found = _weighed(recording, op, reduced.number, weights)
            if found is not None and _is_summed(recording, op):
                yield found


def _weighed(recording: Recording, op: Op, number: int, weights: Use) -> ReducedWeights | None:
    graded, other = recording.values[number], recording.values[weights.number]
    if not graded.requires_grad or other.requires_grad or not other.taint & (Taint.BATCH | Taint.RANDOM):
        return None
    values = tensor_of(recording, weights)
    if values is None or values.numel() < FEWEST:
        return None
    axes = _shared(graded.shape, other.shape)
    reduction = _reduction(recording, number, other.shape, axes) if axes else ""
    if not reduction or not _vary(values, axes):
        return None
    zeros = int((values == 0).sum())
    return ReducedWeights(op.name, reduction, values.numel(), zeros, tuple(sorted(other.sources)), op.module)


def _shared(graded: tuple[int, ...], weights: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes of the weights along which they all meet the same value."""
    padded = (1,) * (len(weights) - len(graded)) + tuple(graded)
    if len(padded) != len(weights):
        return ()
    return tuple(i for i, (one, size) in enumerate(zip(padded, weights, strict=True)) if one == 1 and size > 1)


def _vary(values: torch.Tensor, axes: tuple[int, ...]) -> bool:
    spread = values.double().amax(axes) - values.double().amin(axes)
    return bool((spread > 0).any())


def _reduction(recording: Recording, number: int, shape: tuple[int, ...], axes: tuple[int, ...]) -> str:
    """Return the op that has reduced as many entries as there are weights to the value; empty where there is none."""
    for _ in range(_FOLLOWED):
        op = recording.producer(number)
        inner = [n for n in op.inputs if recording.values[n].requires_grad] if op is not None else []
        if op is None or len(inner) != 1:
            return ""
        before = recording.values[inner[0]].shape
        if op.name in LOSSES:  # the entries are those of the target: one for each sample
            rows = before[:1] if op.name in ("cross_entropy", "nll_loss") else before
            counted = torch.Size(rows).numel()
            return op.name if len(axes) == len(shape) - shape.count(1) and counted == torch.Size(shape).numel() else ""
        if op.name in _REDUCED:
            return op.name if _reduces(before, recording.values[number].shape, shape, axes) else ""
        if op.name not in (*_PASSED, *_SCALED) or recording.values[number].numel != recording.values[inner[0]].numel:
            return ""
        number = inner[0]
    return ""


def _reduces(before: tuple[int, ...], after: tuple[int, ...], shape: tuple[int, ...], axes: tuple[int, ...]) -> bool:
    if torch.Size(after).numel() == 1:
        return torch.Size(before).numel() == torch.Size(shape).numel()
    return tuple(before) == tuple(shape) and all(after[a] == 1 for a in axes if a < len(after))


def _is_summed(recording: Recording, made: Op) -> bool:
    """Whether the product comes to one number by ops that treat its entries alike."""
    current = made.outputs[0]
    for op in recording.ops[made.index + 1 :]:
        if current not in op.inputs:
            continue
        if op.name in _REDUCED or not op.outputs:
            return True
        if op.name not in (*_PASSED, *_SCALED, "add", "radd", "sub", "rsub"):
            return False
        current = op.outputs[0]
    return False
