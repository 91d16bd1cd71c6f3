"""How a recorded run mixes data with noise that it draws: with which factors, from sample to sample."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from nbdebug.experiments.tape import Taint
from nbdebug.experiments.tape.ops import Op, Recording, Use
from nbdebug.experiments.tape.walk import tensor_of

__all__ = ["NoiseSchedule", "noise_schedules"]

_NORMAL = ("randn", "randn_like", "normal", "normal_", "normal_like")
FEWEST = 4  # different levels of noise, so that a relation between both factors is none by chance
EXACT = 1e-3  # of a relation between factors, by rounding in float32


@dataclass(frozen=True)
class NoiseSchedule:
    """The factors a of the data and b of the noise: which relation holds for all samples, and the range of b.

    `relation` is `a² + b²`, `a + b` or `a`, which leave something as it is, or `a² + b`, `a + b²`, which do not; empty
    where none is 1.
    """

    relation: str
    levels: int
    lowest: float
    highest: float
    variance: float  # the lowest a² + b²
    module: str


def noise_schedules(recording: Recording) -> Iterator[NoiseSchedule]:
    """Yield the sums of data and normal noise, each with a factor for each sample."""
    for op in recording.ops:
        if op.name not in ("add", "radd") or len(op.args) != 2 or not all(isinstance(p, Use) for p in op.args):
            continue
        sides = [_factor(recording, part.number) for part in op.args]
        data = next((f for f, kind in sides if kind == "data"), None)
        noise = next((f for f, kind in sides if kind == "noise"), None)
        if data is not None and noise is not None and data.numel() == noise.numel():
            yield _schedule(data.double(), noise.double(), op.module)


def _schedule(data: torch.Tensor, noise: torch.Tensor, module: str) -> NoiseSchedule:
    levels = min(len(data.unique()), len(noise.unique()))
    sums = {
        "a² + b²": data**2 + noise**2, "a + b": data + noise, "a² + b": data**2 + noise, "a + b²": data + noise**2,
    }  # fmt: skip
    held = [name for name, total in sums.items() if bool(((total - 1).abs() < EXACT).all())]
    variance = float(sums["a² + b²"].min())
    return NoiseSchedule(held[0] if held else "", levels, float(noise.min()), float(noise.max()), variance, module)


def _factor(recording: Recording, number: int) -> tuple[torch.Tensor | None, str]:
    """Return what one summand multiplies data or noise with, one factor for each sample, and which of them it is."""
    op = recording.producer(number)
    if (
        op is None
        or op.name not in ("mul", "rmul")
        or len(op.args) != 2
        or not all(isinstance(p, Use) for p in op.args)
    ):
        return None, ""
    sizes = [recording.values[part.number].numel for part in op.args]
    small, large = (op.args[0], op.args[1]) if sizes[0] < sizes[1] else (op.args[1], op.args[0])
    factor, kind = tensor_of(recording, small), _kind(recording, large.number)
    if (
        factor is None
        or not kind
        or factor.numel() < FEWEST
        or factor.numel() != recording.values[large.number].shape[0]
    ):
        return None, ""
    return factor.flatten(), kind


def _kind(recording: Recording, number: int) -> str:
    value = recording.values[number]
    made = _origin(recording, number)
    if value.taint == Taint.RANDOM and made is not None and made.name in _NORMAL:
        return "noise"
    return "data" if value.taint & Taint.BATCH and not value.requires_grad else ""


def _origin(recording: Recording, number: int) -> Op | None:
    op = recording.producer(number)
    while op is not None and op.name in ("to", "view", "reshape", "clone") and op.inputs:
        op = recording.producer(op.inputs[0])
    return op
