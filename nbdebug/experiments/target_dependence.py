"""Whether a loss would be another one with other targets."""

from __future__ import annotations

import math

import torch

from nbdebug.experiments.loss_of_outputs import LossBox
from nbdebug.setup.nested import Path

__all__ = ["influence_of_target"]


def influence_of_target(box: LossBox, name: str) -> float:
    """Return how much the loss changes, as a share of it, when one target is exchanged and the outputs are held
    fixed.
    """
    path, output = _made_up(box)
    real = box.loss(path, output)
    changes = []
    for kind in ("roll", "turn"):
        other = box.batch.map_targets(lambda key, t, kind=kind: _other(t, kind) if key == name else t)  # type: ignore[misc]
        changes.append(abs(box.loss(path, output, other) - real))
    size = max(abs(real), 1e-12)
    return max((math.inf if math.isnan(change) else change / size for change in changes), default=0.0)


def _made_up(box: LossBox) -> tuple[Path, torch.Tensor]:
    """Return outputs of all sorts: equal scores, as a head that starts at zero gives, are as good for any target."""
    path, output = next(iter(box.heads.items()))
    generator = torch.Generator().manual_seed(0)
    free = output + torch.randn(output.shape, generator=generator).to(output) * (1 + output.abs().mean())
    inside = (0.2 + 0.6 * torch.rand(output.shape, generator=generator)).to(output)
    return path, next((values for values in (free, inside) if math.isfinite(box.loss(path, values))), output)


def _other(target: torch.Tensor, kind: str) -> torch.Tensor:
    """Return other values of the same kind: those of the next sample, or the mirrored ones."""
    if kind == "roll":
        return target.roll(1, 0) if target.dim() else target
    if target.dtype == torch.bool:
        return ~target
    low, high = target.min(), target.max()
    if bool(low == high):
        return torch.where(target > 0, target - 1, target + 1).to(target.dtype)
    valid = target >= 0 if not target.is_floating_point() else torch.ones_like(target, dtype=torch.bool)
    low = target[valid].min() if bool(valid.any()) else low
    return torch.where(valid, low + high - target, target)  # a negative class id says: ignore
