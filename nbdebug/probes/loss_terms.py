"""Which term of the loss moves the weights?"""

from __future__ import annotations

import math
from typing import Any

import torch

from nbdebug.control import Control
from nbdebug.errors import NotApplicable
from nbdebug.evidence import LossTerm, LossTerms, TrialRun
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.subject.drawing import seed_torch
from nbdebug.subject.loss import own_loss, parts_of, total_of
from nbdebug.twin import Twin

__all__ = ["loss_terms"]

STEPS = 30
SECONDS = 10.0


@probe
def loss_terms(twin: Twin, trial: TrialRun, control: Control) -> LossTerms:
    """Compute the gradient of each loss term, at the start and after some training steps."""
    require_run(trial)
    twin.ready_to_train()
    batch = twin.batch()
    first, place = _measured(twin, batch)
    steps = 0
    with control.limit(SECONDS):
        for steps in range(1, STEPS + 1):
            control.progress(steps / STEPS, "training briefly to compare the loss terms")
            if not math.isfinite(twin.plain_step(batch)):
                break
    later, _ = _measured(twin, batch)
    terms = [
        LossTerm(name, weight, value, norm, later[name][2] if name in later else math.nan)
        for name, (weight, value, norm) in first.items()
    ]
    return LossTerms(tuple(terms), steps, place)


def _measured(twin: Twin, batch: Batch) -> tuple[dict[str, tuple[float, float, float]], str]:
    """Give each term's weight in the loss, its value, and the norm of its weighted gradient."""
    seed_torch(0)
    total, parts, place = _parts(twin, batch)
    trained = [p for p in twin.model.parameters() if p.requires_grad]
    rows = {name: _gradient(part, trained) for name, part in parts.items() if part.requires_grad}
    if len(rows) < 2:
        how = "pass loss_parts=lambda model, batch, loss_fn: {name: term, …}"
        raise NotApplicable(f"the loss terms are unknown; {how}")
    matrix, whole = torch.stack(list(rows.values()), 1), _gradient(total, trained)
    sizes = matrix.norm(dim=0).clamp_min(1e-30)  # terms of very different sizes are what this is about
    weights = torch.linalg.lstsq(matrix / sizes, whole[:, None]).solution[:, 0] / sizes
    if float((matrix @ weights - whole).norm()) > 0.05 * float(whole.norm()):
        raise NotApplicable("no weighted sum of the given terms equals the loss")
    return {
        name: (float(w), float(parts[name].detach()), float(w.abs() * row.norm()))
        for (name, row), w in zip(rows.items(), weights, strict=True)
    }, place


def _parts(twin: Twin, batch: Batch) -> tuple[torch.Tensor, dict[str, torch.Tensor], str]:
    value, place = _value(twin, batch)
    total, parts = total_of(value), parts_of(value)
    if twin.loss_parts is not None:
        seed_torch(0)
        named = twin.loss_parts(twin.model, batch.raw, twin.loss_for_user())
        parts, place = parts_of(dict(named)), "loss_parts"
    if not isinstance(total, torch.Tensor) or not total.requires_grad:
        raise NotApplicable("the loss has no gradient; see loss-not-differentiable")
    return total.mean(), parts, place


def _value(twin: Twin, batch: Batch) -> tuple[Any, str]:
    if twin.compute_loss is not None:
        return twin.compute_loss(twin.model, batch.raw, twin.loss_for_user()), "compute_loss"
    output = twin.forward(batch)
    if twin.loss_fn is None and own_loss(output) is not None:
        return output, "model"
    return twin.loss_choice(output, batch).function(output, batch.target), "loss_fn"


def _gradient(loss: torch.Tensor, trained: list[torch.nn.Parameter]) -> torch.Tensor:
    gradients = torch.autograd.grad(loss.sum(), trained, retain_graph=True, allow_unused=True)
    flat = [g.flatten() if g is not None else torch.zeros(p.numel()) for g, p in zip(gradients, trained, strict=True)]
    return torch.cat([piece.to("cpu", torch.float64) for piece in flat])
