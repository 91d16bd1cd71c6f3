"""Answers that know nothing of the inputs: equal scores, and the best answer that is the same for all samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from nbdebug.experiments.loss_family import Family

__all__ = ["Guess", "guess_for"]


@dataclass(frozen=True)
class Guess:
    """What the output would be without knowledge, and with nothing but the frequencies of the targets."""

    kind: str
    uninformed: list[torch.Tensor]
    constant: torch.Tensor
    best: tuple[float, ...]
    classes: int
    rows: int
    says: str


def guess_for(family: Family, like: torch.Tensor, dim: int | None) -> Guess | None:
    """Make up both answers for a loss of this family, or None where nothing can be guessed."""
    if family.wanted is None or family.active is None or not bool(family.active.any()):
        return None
    if family.name == "softmax" and family.dim is not None:
        return _classes(family, like, family.dim)
    if family.name == "linear" and dim is not None and like.shape[dim] > 1:
        return _log_probabilities(family, like, dim)
    if family.name in ("logistic", "probabilities"):
        return _yes_or_no(family, like)
    return _numbers(family, like) if family.name in ("squared", "distance") else None


def _classes(family: Family, like: torch.Tensor, dim: int) -> Guess:
    assert family.wanted is not None and family.active is not None
    count = int(like.shape[dim])
    share = _means(family, keep=dim).clamp_min(1e-6)
    best = (share / share.sum()).log()
    says = f"all {count} classes equally likely"
    rows = int(family.active.select(dim, 0).sum())
    return Guess("classification", [torch.zeros_like(like)], _spread(best, like, dim), _listed(best), count, rows, says)


def _log_probabilities(family: Family, like: torch.Tensor, dim: int) -> Guess:
    assert family.wanted is not None and family.active is not None
    count = int(like.shape[dim])
    rows = int(family.active.any(dim).sum())
    share = family.wanted.clamp_min(0).movedim(dim, -1).flatten(0, -2).sum(0).clamp_min(1e-9)
    best = (share / share.sum()).log()
    even = torch.full_like(like, -math.log(count))
    says = f"all {count} classes equally likely"
    return Guess("classification", [even], _spread(best, like, dim), _listed(best), count, rows, says)


def _yes_or_no(family: Family, like: torch.Tensor) -> Guess | None:
    assert family.wanted is not None and family.active is not None
    keep = _unit_dim(like)
    share = _means(family, keep).clamp(1e-4, 1 - 1e-4)
    if family.name == "probabilities" and not bool((family.wanted[family.active] < 0.5).any()):
        return None  # it reads the probability of the right class only, so a constant would be certain
    best = share if family.name == "probabilities" else share.logit()
    even = torch.full_like(like, 0.5 if family.name == "probabilities" else 0.0)
    rows = int(family.active.sum())
    return Guess("binary", [even], _spread(best, like, keep), _listed(best), 2, rows, "both classes equally likely")


def _numbers(family: Family, like: torch.Tensor) -> Guess:
    assert family.wanted is not None and family.active is not None
    keep = _unit_dim(like)
    best = _means(family, keep)
    constant = _spread(best, like, keep)
    says = "predicting zero or the mean of the targets"
    rows = int(family.active.sum())
    return Guess("regression", [constant, torch.zeros_like(like)], constant, _listed(best), 0, rows, says)


def _unit_dim(like: torch.Tensor) -> int | None:
    """The dimension that a bias of the last layer has one value for each entry of."""
    return None if like.dim() < 2 else 1 if like.dim() in (2, 4, 5) else like.dim() - 1


def _means(family: Family, keep: int | None) -> torch.Tensor:
    """Return the mean of what is wanted for each output unit, each element as heavy as the loss takes it."""
    assert family.wanted is not None and family.active is not None and family.weight is not None
    weight = torch.where(family.active, family.weight.abs(), torch.zeros_like(family.weight))
    if keep is None:
        return ((family.wanted * weight).sum() / weight.sum()).reshape(1)
    values, weight = (t.movedim(keep, -1).flatten(0, -2) for t in (family.wanted, weight))
    return (values * weight).sum(0) / weight.sum(0).clamp_min(1e-30)


def _spread(best: torch.Tensor, like: torch.Tensor, dim: int | None) -> torch.Tensor:
    """Return the best constant in the shape of an output."""
    shape = [1] * like.dim()
    if dim is not None:
        shape[dim] = -1
    return best.reshape(shape).expand(like.shape).to(like)


def _listed(best: torch.Tensor) -> tuple[float, ...]:
    return tuple(round(float(value), 4) for value in best[:12])
