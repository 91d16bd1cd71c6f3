"""How large are every parameter, its gradient and its step?"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.activation_histograms import Histogram, histogram_of
from nbdebug.experiments.tensor_stats import floats_of
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch

__all__ = ["ParameterLook", "ParameterLooks", "parameter_looks"]


@dataclass(frozen=True)
class ParameterLook:
    """One parameter: its norm, that of its gradient, and the change by one step relative to its size."""

    name: str
    shape: tuple[int, ...]
    trained: bool
    weight: float
    gradient: float | None  # None where none came
    update: float | None
    weights: Histogram | None
    gradients: Histogram | None


@dataclass(frozen=True)
class ParameterLooks:
    """All parameters of a model after one backward pass and one step on a copy."""

    parameters: tuple[ParameterLook, ...]
    loss: float
    optimizer: str
    samples: int


@probe
def parameter_looks(sandbox: Sandbox) -> ParameterLooks:
    """Take one training step and measure every parameter, gradient and update."""
    sandbox.ready_to_train()
    batch = sandbox.batch()
    sandbox.model.zero_grad(set_to_none=True)
    loss = sandbox.run(batch).loss
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.requires_grad:
        raise NotApplicable("the loss has no gradient; see loss-not-differentiable")
    loss.backward()
    known = list(sandbox.model.named_parameters())
    before = [(p.detach().clone(), p.grad.detach().clone() if p.grad is not None else None) for _, p in known]
    updates = _updates(sandbox, batch, known, [old for old, _ in before])
    looks = tuple(
        ParameterLook(
            name=name,
            shape=tuple(int(n) for n in parameter.shape),
            trained=parameter.requires_grad,
            weight=_norm(old),
            gradient=_norm(gradient) if gradient is not None else None,
            update=updates.get(name),
            weights=histogram_of(old),
            gradients=histogram_of(gradient) if gradient is not None else None,
        )
        for (name, parameter), (old, gradient) in zip(known, before, strict=True)
    )
    if not looks:
        raise NotApplicable("the model has no parameters")
    optimizer = "Adam, assumed" if sandbox.owns_optimizer else type(sandbox.optimizer).__name__
    return ParameterLooks(looks, float(loss.detach()), optimizer, batch.size)


def _updates(
    sandbox: Sandbox, batch: Batch, known: list[tuple[str, torch.nn.Parameter]], before: list[torch.Tensor]
) -> dict[str, float]:
    """Take one step, the user's own where there is one, and measure how far each parameter moved."""
    sandbox.step(batch)
    pairs = [(name, p, old, _norm(old)) for (name, p), old in zip(known, before, strict=True)]
    return {name: _norm(p.detach() - old) / size for name, p, old, size in pairs if p.requires_grad and size > 0}


def _norm(tensor: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(floats_of(tensor).double()))
