"""Targets of a recorded run that are made of data and of a discounted value of a network, as in Q-learning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.experiments.tape import Taint
from nbdebug.experiments.tape.ops import Op, Recording, Use
from nbdebug.experiments.tape.walk import SAME_VALUES, given_by_name, tensor_of

__all__ = ["Bootstrap", "bootstraps"]

_COMPARED = ("sub", "rsub", "mse_loss", "smooth_l1_loss", "huber_loss", "l1_loss")
_NETWORK = Taint.PARAMETER | Taint.FROZEN


@dataclass(frozen=True)
class Bootstrap:
    """One such target: whether it has a gradient, and the share of ones in the mask that the value is multiplied with.

    `continued` is NaN where there is no mask.
    """

    discount: float
    has_gradient: bool
    continued: float
    samples: int
    sources: tuple[str, ...]


def bootstraps(recording: Recording) -> Iterator[Bootstrap]:
    """Yield the sums of data and a discounted value that a prediction with a gradient is compared with."""
    for op in recording.ops:
        if op.name not in _COMPARED:
            continue
        given = given_by_name(op, ("input", "target") if op.name.endswith("loss") else ("input", "other"))
        sides = [part.number for part in list(given.values())[:2] if isinstance(part, Use)]
        for target, prediction in (sides, sides[::-1]) if len(sides) == 2 else ():
            if recording.values[prediction].requires_grad and recording.values[target].shape:
                found = _bootstrap(recording, target)
                if found is not None:
                    yield found


def _bootstrap(recording: Recording, number: int) -> Bootstrap | None:
    op = _skipped(recording, number)
    parts = [part.number for part in op.args if isinstance(part, Use)] if op is not None else []
    if op is None or op.name not in ("add", "radd") or len(parts) != 2:
        return None
    for reward, rest in (parts, parts[::-1]):
        value, term = recording.values[reward], recording.values[rest]
        if value.taint != Taint.BATCH or not term.taint & _NETWORK or value.numel != term.numel:
            continue
        if not value.shape or value.numel != value.shape[0]:  # a reward is one number for each transition
            continue
        numbers, masks, networks = _factors(recording, rest)
        discounts = [n for n in numbers if 0.5 <= n < 1]
        if len(discounts) == 1 and networks == 1 and len(masks) <= 1:
            share = float(masks[0][1].double().mean()) if masks else float("nan")
            sources = tuple(sorted(recording.values[masks[0][0]].sources)) if masks else ()
            has_gradient = recording.values[number].requires_grad
            return Bootstrap(discounts[0], has_gradient, share, value.numel, sources)
    return None


def _skipped(recording: Recording, number: int) -> Op | None:
    op = recording.producer(number)
    while op is not None and op.name in SAME_VALUES and op.name not in ("detach", "data") and op.inputs:
        op = recording.producer(op.inputs[0])
    if op is not None and op.name in ("detach", "data") and op.inputs:
        return _skipped(recording, op.inputs[0])
    return op


def _factors(recording: Recording, number: int) -> tuple[list[float], list[tuple[int, torch.Tensor]], int]:
    """Return the numbers, the masks of the batch, and how many values of a network are multiplied."""
    op = _skipped(recording, number)
    if op is not None and op.name in ("mul", "rmul", "mul_"):
        numbers: list[float] = []
        masks: list[tuple[int, torch.Tensor]] = []
        networks = 0
        for part in op.args:
            if isinstance(part, Use):
                more: Any = _factors(recording, part.number)
                numbers, masks, networks = numbers + more[0], masks + more[1], networks + more[2]
            elif isinstance(part, (int, float)):
                numbers.append(float(part))
        return numbers, masks, networks
    value, tensor = recording.values[number], tensor_of(recording, Use(number))
    if value.taint & _NETWORK:
        return [], [], 1
    if tensor is not None and tensor.numel() == 1:
        return [float(tensor)], [], 0
    is_mask = value.taint == Taint.BATCH and tensor is not None and bool(((tensor == 0) | (tensor == 1)).all())
    return ([], [(number, tensor)], 0) if is_mask and tensor is not None else ([], [], 2)
