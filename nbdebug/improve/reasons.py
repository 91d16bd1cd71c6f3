"""Why two layers that should give the same give something else: their settings, or what the numbers look like."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

__all__ = ["likeliest_reason"]

CLOSE = 1e-6  # in double precision, relative


def likeliest_reason(
    mine: torch.Tensor | None, known: torch.Tensor | None, module: nn.Module | None, reference: nn.Module | None
) -> str:
    """Return the most likely reason in words."""
    settings = _other_settings(module, reference) if module is not None and reference is not None else ""
    if mine is None or known is None:
        return settings or "only one of the two returns a tensor"
    if mine.shape != known.shape:
        shapes = f"shape {tuple(mine.shape)} instead of {tuple(known.shape)}"
        return f"{settings}; {shapes}" if settings else shapes
    return settings or _other_numbers(mine.double(), known.double()) or "different values without a simple pattern"


def _other_settings(module: nn.Module, reference: nn.Module) -> str:
    """Compare what the two modules were made with: another kind, eps, padding, slope, mode …"""
    if type(module) is not type(reference):
        return f"{type(module).__name__} instead of {type(reference).__name__}"
    differing = [
        f"{name} is {_shown(value)} instead of {_shown(other)}"
        for name, value in vars(module).items()
        if not name.startswith("_")
        and isinstance(value, (bool, int, float, str, tuple))
        and (other := getattr(reference, name, value)) != value
    ]
    return "; ".join(differing[:4])


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else repr(value)


def _other_numbers(mine: torch.Tensor, known: torch.Tensor) -> str:
    scale = float(known.abs().max()) or 1.0
    if _same(mine, -known, scale):
        return "the sign is flipped"
    weight = float((mine * known).sum() / known.square().sum().clamp(min=1e-300))
    if weight and _same(mine, weight * known, scale):
        return f"a factor of {weight:.6g} (a scale is missing or applied twice)"
    shift = float((mine - known).mean())
    if _same(mine, known + shift, scale):
        return f"a constant {shift:.6g} is added"
    if mine.dim() >= 2:
        for a in range(mine.dim()):
            for b in range(a + 1, mine.dim()):
                if mine.shape[a] == mine.shape[b] and _same(mine, known.transpose(a, b), scale):
                    return f"dimensions {a} and {b} are swapped"
        if _same(mine.sort(-1).values, known.sort(-1).values, scale):
            return "the same values in another order along the last dimension"
        if _same(mine.flatten().sort().values, known.flatten().sort().values, scale):
            return "the same values in another order (a permute or a reshape)"
    share = float(((mine - known).abs() > CLOSE * scale).double().mean())
    if _same(mine.clamp(min=0), known.clamp(min=0), scale) or _same(mine, known.clamp(min=0), scale):
        return "only negative values differ: different activation"
    if _same(mine.clamp(min=0), known, scale):
        return "only negative values differ: missing activation"
    return f"{share:.0%} of the values differ" if share < 0.5 else ""


def _same(a: torch.Tensor, b: torch.Tensor, scale: float) -> bool:
    return bool(((a - b).abs() <= CLOSE * scale).all())
