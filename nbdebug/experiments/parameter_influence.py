"""Does a parameter matter? Replace its values and compare the answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from nbdebug.experiments.capture import tapped
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.nested import first_tensor
from nbdebug.setup.sample_dataset import seed_torch

__all__ = ["altered", "changes_its_layer", "influence_of"]


def influence_of(
    sandbox: Sandbox, batch: Batch, parameters: Sequence[torch.Tensor], *, on_loss_alone: bool = False
) -> float:
    """Return the relative change of the answer when these values are strongly changed; 0 where none can be told.

    The answer is the prediction with the loss, or the loss alone: a loss may well be blind to a change of all outputs.
    """
    reference, again = (_answer(sandbox, batch, on_loss_alone) for _ in range(2))
    with altered(parameters):
        changed = _answer(sandbox, batch, on_loss_alone)
    change, noise = _distance(reference, changed), _distance(reference, again)
    return change if change > 10 * noise + 1e-7 else 0.0


def changes_its_layer(sandbox: Sandbox, batch: Batch, path: str, parameters: Sequence[torch.Tensor]) -> bool:
    """Whether what the layer itself gives depends on these values, as on a bias of which only the gradient is used."""
    reference = _given_by(sandbox, batch, path)
    with altered(parameters):
        changed = _given_by(sandbox, batch, path)
    return reference is not None and changed is not None and _distance(reference, changed) > 1e-6


@contextmanager
def altered(parameters: Sequence[torch.Tensor]) -> Iterator[None]:
    """Change these values strongly, and put them back."""
    kept = [parameter.detach().clone() for parameter in parameters]
    with torch.no_grad():
        for parameter in parameters:
            scale = float(parameter.abs().mean()) or 0.1
            parameter.add_(torch.randn_like(parameter), alpha=3 * scale)
    try:
        yield
    finally:
        with torch.no_grad():
            for parameter, values in zip(parameters, kept, strict=True):
                parameter.copy_(values)


def _given_by(sandbox: Sandbox, batch: Batch, path: str) -> torch.Tensor | None:
    """Return what the layer answers first, as one vector."""
    given: list[torch.Tensor] = []

    def after(where: str, module: nn.Module, inputs: Any, output: Any) -> None:
        tensor = first_tensor(output)
        if where == path and tensor is not None and not given:
            given.append(tensor.detach().double().flatten())

    seed_torch(0)
    with tapped(sandbox.model, after=after):
        sandbox.run(batch)
    return given[0] if given else None


def _answer(sandbox: Sandbox, batch: Batch, on_loss_alone: bool) -> torch.Tensor:
    """Return the prediction and the loss as one vector, with the same randomness every time."""
    seed_torch(0)
    outcome = sandbox.run(batch)
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
