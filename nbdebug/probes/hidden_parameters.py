"""Which tensors learn, or would, without being parameters of the model?"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from nbdebug.errors import NotApplicable
from nbdebug.evidence import HiddenParameter, HiddenParameters, TrialRun
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.twin import Twin
from nbdebug.twin.belongings import hidden_tensors
from nbdebug.twin.taps import tensors_in

__all__ = ["hidden_parameters"]

BATCHES = 2
NODES = 200_000  # of one graph that are looked at

Found = list[tuple[str, str, str, torch.Tensor]]


@probe
def hidden_parameters(twin: Twin, trial: TrialRun) -> HiddenParameters:
    """Search the autograd graph of the loss for unregistered parameters."""
    require_run(trial)
    twin.ready_to_train()
    of_model, of_loss = list(hidden_tensors(twin.model)), _of_loss(twin.loss_fn)
    candidates = [tensor for *_, tensor in (*of_model, *of_loss)]
    norms = [0.0] * len(candidates)
    known = {id(t) for t in (*twin.model.parameters(), *candidates)}
    strangers: set[int] = set()
    for batch in twin.batches(BATCHES):
        loss = twin.run(batch).loss
        if not isinstance(loss, torch.Tensor) or not loss.requires_grad or loss.numel() != 1:
            raise NotApplicable("the loss has no gradient")
        given = {id(t) for t in tensors_in(batch.raw)}
        strangers |= {id(leaf) for leaf in _leaves(loss)} - known - given
        if candidates:
            gradients = torch.autograd.grad(loss, candidates, allow_unused=True)
            norms = [
                n + float(g.to_dense().norm()) if g is not None else n for n, g in zip(norms, gradients, strict=True)
            ]
    held = {id(p) for group in twin.optimizer.param_groups for p in group["params"]}
    facts = [_fact(found, norm, held) for found, norm in zip((*of_model, *of_loss), norms, strict=True)]
    return HiddenParameters(
        of_model=tuple(fact for fact in facts[: len(of_model)] if fact.gradient > 0),
        of_loss=tuple(fact for fact in facts[len(of_model) :] if fact.gradient > 0),
        strangers=len(strangers - held),
        optimizer_given=not twin.owns_optimizer,
    )


def _of_loss(loss_fn: Any) -> Found:
    if not isinstance(loss_fn, nn.Module):
        return []
    own = [
        (f"loss_fn.{name}", f"loss_fn.{name}", type(loss_fn).__name__, p)
        for name, p in loss_fn.named_parameters()
        if p.requires_grad
    ]
    return own + [(f"loss_fn.{a}", f"loss_fn.{b}", kind, t) for a, b, kind, t in hidden_tensors(loss_fn)]


def _fact(found: tuple[str, str, str, torch.Tensor], norm: float, held: set[int]) -> HiddenParameter:
    place, path, kind, tensor = found
    return HiddenParameter(place, path, tuple(tensor.shape), norm, id(tensor) in held, kind)


def _leaves(loss: torch.Tensor) -> list[torch.Tensor]:
    """Give the leaves of a graph: the tensors into which its backward would accumulate."""
    stack: list[Any] = [loss.grad_fn]
    seen: set[Any] = set()
    found: list[torch.Tensor] = []
    while stack and len(seen) < NODES:
        node: Any = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.append(node.variable)
        stack.extend(following for following, _ in node.next_functions)
    return found
