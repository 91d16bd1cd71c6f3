"""Does a parameter matter? Replace its values and compare the answers."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from nbdebug.subject import Batch
from nbdebug.subject.drawing import seed_torch
from nbdebug.twin import Twin

__all__ = ["influence_of"]


def influence_of(twin: Twin, batch: Batch, parameters: Sequence[torch.Tensor], *, on_loss_alone: bool = False) -> float:
    """Give the relative change of the answer when these values are strongly changed; 0 where none can be told.

    The answer is the prediction with the loss, or the loss alone: a loss may well be blind to a change of all outputs.
    """
    reference, again = (_answer(twin, batch, on_loss_alone) for _ in range(2))
    kept = [parameter.detach().clone() for parameter in parameters]
    with torch.no_grad():
        for parameter in parameters:
            scale = float(parameter.abs().mean()) or 0.1
            parameter.add_(torch.randn_like(parameter), alpha=3 * scale)
    changed = _answer(twin, batch, on_loss_alone)
    with torch.no_grad():
        for parameter, values in zip(parameters, kept, strict=True):
            parameter.copy_(values)
    change, noise = _distance(reference, changed), _distance(reference, again)
    return change if change > 10 * noise + 1e-7 else 0.0


def _answer(twin: Twin, batch: Batch, on_loss_alone: bool) -> torch.Tensor:
    """Give the prediction and the loss as one vector, with the same randomness every time."""
    seed_torch(0)
    outcome = twin.run(batch)
    seen = (outcome.loss,) if on_loss_alone else (outcome.predicted, outcome.loss)
    parts = [part for part in seen if isinstance(part, torch.Tensor)]
    parts = [torch.view_as_real(part) if part.is_complex() else part for part in parts]
    return torch.cat([part.detach().double().flatten() for part in parts])


def _distance(a: torch.Tensor, b: torch.Tensor) -> float:
    if a.shape != b.shape:
        return 1.0
    finite = torch.isfinite(a) & torch.isfinite(b)
    if not bool(finite.any()):
        return 0.0
    return float((a - b)[finite].abs().max() / a[finite].abs().mean().clamp_min(1e-12))
