"""What a Kullback-Leibler divergence of a recorded run is given: logarithms of probabilities, or something else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.experiments.tape.ops import Op, Recording

__all__ = ["Divergence", "divergences"]

_NAMES = ("input", "target", "size_average", "reduce", "reduction", "log_target")
_ABOVE_ZERO = 1e-3  # of a logarithm of a probability, by rounding or by an eps
_NEAR_ONE = 0.05  # of the sums of a distribution, half of which may be padding


@dataclass(frozen=True)
class Divergence:
    """One call of `kl_div`: which argument is no logarithm although it has to be, what it is, and its range."""

    argument: str
    kind: str  # probabilities, or scores
    low: float
    high: float
    module: str
    log_target: bool


def divergences(recording: Recording) -> Iterator[Divergence]:
    """Yield the calls of `kl_div` that get no logarithms where these are due."""
    for op in recording.ops:
        if op.name != "kl_div":
            continue
        given = dict(zip(_NAMES, op.args, strict=False)) | op.kwargs
        log_target = given.get("log_target") is True
        scores, wanted = _values(recording, given.get("input")), _values(recording, given.get("target"))
        if scores is None or wanted is None or not scores.numel():
            continue
        is_distribution = log_target or _sums_to_one(wanted)
        if is_distribution and float(scores.max()) > _ABOVE_ZERO:
            yield _of("input", scores, op, log_target)
        elif log_target and float(wanted.max()) > _ABOVE_ZERO:
            yield _of("target", wanted, op, log_target)


def _of(argument: str, values: torch.Tensor, op: Op, log_target: bool) -> Divergence:
    kind = "probabilities" if _sums_to_one(values) else "scores"
    return Divergence(argument, kind, float(values.min()), float(values.max()), op.module, log_target)


def _values(recording: Recording, part: Any) -> torch.Tensor | None:
    tensor = recording.tensor_of(part)
    return tensor.detach().double() if tensor is not None and tensor.is_floating_point() else None


def _sums_to_one(values: torch.Tensor) -> bool:
    """Whether these are probabilities: along an axis, or over all axes together."""
    if not values.dim() or float(values.min()) < -1e-6:
        return False
    sums = [values.sum(dim).median() for dim in range(values.dim())] + [values.sum()]
    return any(abs(float(one) - 1) < _NEAR_ONE for one in sums)
