"""The least that a loss can come to: with outputs that are free, and within the bounds that the model keeps."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from nbdebug.experiments.loss_family import Family
from nbdebug.experiments.loss_of_outputs import LossBox
from nbdebug.experiments.output_range import Reach
from nbdebug.setup.nested import Path

__all__ = ["SCALES", "Floors", "aligned", "floors_of", "squashes_twice"]

SCALES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # 32 is certainty in single precision
SATURATED = 50.0


@dataclass(frozen=True)
class Floors:
    """The least loss free and within bounds, the loss of equal scores, and which way the loss pulls."""

    free: float | None = None
    reachable: float | None = None
    chance: float | None = None
    toward: float | None = None
    even_weights: bool = True
    wanted: tuple[float, float] | None = None
    unreachable: float = 0.0


def floors_of(
    box: LossBox, path: Path, family: Family, reach: Reach, target: torch.Tensor | None, dim: int | None
) -> Floors:
    """Measure how far this output can go with this loss."""
    toward, even = _toward(box, path, family, target, dim)
    if family.name in ("squared", "distance"):
        wanted, unreachable = _unreachable(family, reach)
        return Floors(toward=toward, even_weights=even, wanted=wanted, unreachable=unreachable)
    signs = aligned(box.heads[path], family, target, dim)
    wanted = _range_of(family) if family.name in ("logistic", "probabilities") else None
    if signs is None or family.name not in ("softmax", "differences", "logistic"):
        return Floors(toward=toward, even_weights=even, wanted=wanted)
    ideal = [signs * s for s in SCALES]
    if family.name == "softmax" and family.wanted is not None:
        ideal.append(family.wanted.clamp_min(1e-9).log().to(signs))  # the best answer to soft labels
    middle, half = (reach.low + reach.high) / 2, (reach.high - reach.low) / 2
    within = [output.clamp(reach.low, reach.high) for output in ideal]
    within += [middle + signs * min(s, half) for s in SCALES] if half < SCALES[-1] else []
    free, reachable = (min(_losses(box, path, outputs), default=math.nan) for outputs in (ideal, within))
    chance = box.loss(path, torch.zeros_like(signs))
    if not all(math.isfinite(value) for value in (free, reachable, chance)):
        return Floors(toward=toward, even_weights=even, wanted=wanted)
    return Floors(min(free, reachable), reachable, chance, toward, even, wanted)


def aligned(like: torch.Tensor, family: Family, target: torch.Tensor | None, dim: int | None) -> torch.Tensor | None:
    """Return 1 where the target wants a high score and -1 elsewhere."""
    if family.name == "logistic" and family.wanted is not None:
        return torch.where(family.wanted > 0.5, 1.0, -1.0).to(like)
    if family.name == "softmax" and family.wanted is not None and family.dim is not None:
        best = family.wanted.argmax(family.dim, keepdim=True)
        return torch.full_like(like, -1.0).scatter_(family.dim, best.to(like.device), 1.0)
    if target is None or dim is None or target.is_complex():
        return None
    if target.shape == like.shape:
        best = target.argmax(dim, keepdim=True)
    else:
        best = target.long().unsqueeze(dim)
        best = torch.where((best >= 0) & (best < like.shape[dim]), best, torch.zeros_like(best))  # ignored labels
    return torch.full_like(like, -1.0).scatter_(dim, best, 1.0)


def squashes_twice(box: LossBox, path: Path, target: torch.Tensor | None, dim: int | None) -> str:
    """Return whether the loss squashes the outputs before a loss that squashes them again.

    With certain outputs such a loss comes to values that nothing else gives: log(1 + (C − 1)/e) when all are right and
    log(e + C − 1) when all are wrong; the ratio of the two stays whatever the reduction.
    """
    like = box.heads[path]
    if target is None or (dim is not None and like.shape[dim] < 2):
        return ""
    if dim is not None and target.shape != like.shape:
        right = aligned(like, Family("other"), target, dim)
        classes = like.shape[dim]
        assert right is not None
        expected = math.log(1 + (classes - 1) / math.e) / math.log(math.e + classes - 1)
        wrong, name = right.roll(1, dim), "softmax-twice"
    elif target.shape == like.shape and bool(((target == 0) | (target == 1)).all()):
        right = (2 * target - 1).to(like)
        ones = float(target.double().mean())
        good = ones * math.log1p(1 / math.e) + (1 - ones) * math.log(2)
        expected = good / (ones * math.log(2) + (1 - ones) * math.log1p(math.e))
        wrong, name = -right, "sigmoid-twice"
    else:
        return ""
    values = [box.loss(path, side * scale) for side in (right, wrong) for scale in (SATURATED, 2 * SATURATED)]
    if not all(math.isfinite(v) and v > 0 for v in values):
        return ""
    stays = abs(values[1] / values[0] - 1) < 1e-3 and abs(values[3] / values[2] - 1) < 1e-3
    return name if stays and abs(values[0] / values[2] / expected - 1) < 0.01 else ""


def _losses(box: LossBox, path: Path, outputs: list[torch.Tensor]) -> list[float]:
    return [loss for output in outputs if math.isfinite(loss := box.loss(path, output.to(box.heads[path].dtype)))]


def _range_of(family: Family) -> tuple[float, float]:
    assert family.wanted is not None and family.active is not None
    wanted = family.wanted[family.active]
    return float(wanted.min()), float(wanted.max())


def _unreachable(family: Family, reach: Reach) -> tuple[tuple[float, float] | None, float]:
    """Return the range of what the loss wants, and the share of it that lies clearly outside of what can be reached."""
    assert family.wanted is not None and family.active is not None
    wanted = family.wanted[family.active]
    low, high = _range_of(family)
    slack = 0.01 * max(high - low, 1e-3 * max(abs(low), abs(high)))
    outside = (wanted < reach.low - slack) | (wanted > reach.high + slack)
    return (low, high), float(outside.double().mean())


def _toward(
    box: LossBox, path: Path, family: Family, target: torch.Tensor | None, dim: int | None
) -> tuple[float | None, bool]:
    """Return the share of elements that are pulled toward their target, and whether all are pulled alike."""
    if family.name == "linear":
        return _picked(family, target, dim, box.heads[path])
    if family.weight is not None and family.active is not None:
        weight = family.weight[family.active]
        even = float(weight.abs().max()) <= 100 * float(weight.abs().min())
        return float((weight > 0).double().mean()), even
    signs = aligned(box.heads[path], family, target, dim) if family.name == "differences" else None
    if signs is None:
        return None, True
    felt = []
    for seed in range(
        3
    ):  # one output would not do: a loss that is blind to the targets may pull them one way by chance
        noise = torch.randn(signs.shape, generator=torch.Generator().manual_seed(seed)).to(signs)
        gradient = box.gradient(path, noise)[1]
        if gradient is not None:
            felt.append(gradient[(signs > 0) & (gradient.abs() > 1e-4 * gradient.abs().max())])
    pulled = torch.cat(felt) if felt else torch.zeros(0)
    return (float((pulled < 0).double().mean()), True) if pulled.numel() else (None, True)


def _picked(
    family: Family, target: torch.Tensor | None, dim: int | None, like: torch.Tensor
) -> tuple[float | None, bool]:
    """For a loss that picks the target's entry: the share of picked entries whose score it raises."""
    signs = aligned(like, Family("other"), target, dim)
    if signs is None or family.wanted is None or family.active is None:
        return None, True
    if bool((family.active & (signs < 0)).any()) and target is not None and target.shape != like.shape:
        return None, True  # it reads other entries too, so it is no likelihood of these targets
    picked = family.wanted[family.active]
    return float((picked > 0).double().mean()), True
