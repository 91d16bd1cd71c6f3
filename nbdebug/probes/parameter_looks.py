"""How large are every parameter, its gradient and its step?"""

from __future__ import annotations

import torch

from nbdebug.errors import NotApplicable
from nbdebug.evidence import ParameterLook, ParameterLooks
from nbdebug.probes.activation_look import histogram_of
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.twin import Twin
from nbdebug.twin.stats import floats_of

__all__ = ["parameter_looks"]


@probe
def parameter_looks(twin: Twin) -> ParameterLooks:
    """Take one training step and measure every parameter, gradient and update."""
    twin.ready_to_train()
    batch = twin.batch()
    twin.model.zero_grad(set_to_none=True)
    loss = twin.run(batch).loss
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.requires_grad:
        raise NotApplicable("the loss has no gradient; see loss-not-differentiable")
    loss.backward()
    known = list(twin.model.named_parameters())
    before = [(p.detach().clone(), p.grad.detach().clone() if p.grad is not None else None) for _, p in known]
    updates = _updates(twin, batch, known, [old for old, _ in before])
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
    optimizer = "Adam, assumed" if twin.owns_optimizer else type(twin.optimizer).__name__
    return ParameterLooks(looks, float(loss.detach()), optimizer, batch.size)


def _updates(
    twin: Twin, batch: Batch, known: list[tuple[str, torch.nn.Parameter]], before: list[torch.Tensor]
) -> dict[str, float]:
    """Take one step, the user's own where there is one, and measure how far each parameter moved."""
    twin.step(batch)
    pairs = [(name, p, old, _norm(old)) for (name, p), old in zip(known, before, strict=True)]
    return {name: _norm(p.detach() - old) / size for name, p, old, size in pairs if p.requires_grad and size > 0}


def _norm(tensor: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(floats_of(tensor).double()))
