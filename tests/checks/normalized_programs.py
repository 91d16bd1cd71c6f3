"""Losses that compare two views of the same samples, with representations normalized over one dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from tests.checks.likelihood_programs import Loss, network, rows
from tests.checks.position_programs import Program, program
from tests.zoo.samples import seeded


def pairs(loss: Loss, shape: tuple[int, ...] = ()) -> Program:
    """Return a program that compares two views of the same samples."""
    views = rows()[:, None] + 0.1 * torch.randn(48, 2, 8, generator=seeded(13))
    views = views[:, :, None].repeat(1, 1, shape[0], 1) + 0.3 * torch.randn(48, 2, *shape, 8) if shape else views

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        return loss(model(batch[0][:, 0]), model(batch[0][:, 1]))

    return program(network(16), views, compute_loss=compute_loss)


def contrast(dim: int, by_hand: bool = False, einsum: bool = False) -> Loss:
    """Tell the other view from those of other samples, after normalizing over a dimension."""

    def loss(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        if by_hand:
            a, b = (z / z.norm(dim=dim, keepdim=True) for z in (one, other))
        else:
            a, b = F.normalize(one, dim=dim), F.normalize(other, dim=dim)
        scores = torch.einsum("nd,md->nm", a, b) if einsum else a @ b.T
        return F.cross_entropy(scores / 0.2, torch.arange(len(scores)))

    return loss


def one_for_both(dim: int) -> Loss:
    """Normalize the representations of both views together."""

    def loss(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        z = F.normalize(torch.cat([one, other]), dim=dim)
        scores = (torch.mm(z, z.t()) / 0.5).masked_fill(torch.eye(len(z)).bool(), -1e9)
        return F.cross_entropy(scores, torch.arange(len(z)).roll(len(one)))

    return loss


def over_tokens(dim: int) -> Loss:
    """Compare each token of one view with those of the other."""

    def loss(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        scores = F.normalize(one, dim=dim) @ F.normalize(other, dim=dim).transpose(1, 2) / 0.2
        return F.cross_entropy(scores.flatten(0, 1), torch.arange(one.shape[1]).repeat(len(one)))

    return loss


def barlow(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Correlate the features over the batch."""
    a, b = F.normalize(one - one.mean(0), dim=0), F.normalize(other - other.mean(0), dim=0)
    return (a.T @ b - torch.eye(a.shape[1])).square().sum()


def standardized(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Standardize the features over the batch before the rows are normalized."""
    a, b = (F.normalize((z - z.mean(0)) / z.std(0), dim=1) for z in (one, other))
    return F.cross_entropy(a @ b.T / 0.2, torch.arange(len(a)))


def channels_attend(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Let channels attend to channels, with queries and keys normalized over the tokens."""
    q, k = F.normalize(one, dim=1), F.normalize(other, dim=1)
    mixed = one @ (q.transpose(1, 2) @ k).softmax(-1).transpose(1, 2)
    return F.mse_loss(mixed, other)


SAME_DIM: dict[str, Callable[[], Program]] = {
    "rows": lambda: pairs(contrast(1)),
    "by-hand": lambda: pairs(contrast(1, by_hand=True)),
    "last": lambda: pairs(contrast(-1, einsum=True)),
    "both": lambda: pairs(one_for_both(1)),
    "tokens": lambda: pairs(over_tokens(-1), (6,)),
    "barlow": lambda: pairs(barlow),
    "standardized": lambda: pairs(standardized),
    "channels": lambda: pairs(channels_attend, (6,)),
}
OTHER_DIM: dict[str, Callable[[], Program]] = {
    "batch": lambda: pairs(contrast(0)),
    "by-hand": lambda: pairs(contrast(0, by_hand=True)),
    "einsum": lambda: pairs(contrast(0, einsum=True)),
    "both": lambda: pairs(one_for_both(0)),
    "tokens": lambda: pairs(over_tokens(1), (6,)),
    "tokens-over-batch": lambda: pairs(over_tokens(0), (6,)),
}
