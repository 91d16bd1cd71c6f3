"""Failing examples that push the views of one sample apart."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.checks.families import alarms_of
from tests.checks.objective_programs import Program, alike, two_views
from tests.examples import failing_example

CHECK = "positive-pairs-repelled"


@failing_example("positive-pairs-repelled", where="compute_loss")
def partners_of_another_order() -> Program:
    """The views stand one after the other, and the loss takes row i + n for the partner."""

    def loss(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        z = F.normalize(torch.stack([a, b], 1).flatten(0, 1), dim=1)
        # fixed: z = F.normalize(torch.cat([a, b]), dim=1)
        scores = (z @ z.T / 0.2).masked_fill(torch.eye(len(z)) > 0, -1e4)
        return F.cross_entropy(scores, torch.arange(len(z)).roll(len(z) // 2))

    return two_views(loss)


@failing_example("positive-pairs-repelled", where="compute_loss")
def distances_as_scores() -> Program:
    """Distances stand where similarities are due."""
    return two_views(lambda a, b: F.cross_entropy(torch.cdist(a, b), torch.arange(len(a))))


def supervised(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Take all rows of one class for positives."""
    z, kind = F.normalize(torch.cat([a, b]), dim=1), torch.arange(len(a)).repeat(2) % 4
    scores = (z @ z.T / 0.2).masked_fill(torch.eye(len(z)) > 0, -1e4).log_softmax(1)
    same = (kind[:, None] == kind) & (torch.eye(len(z)) == 0)
    return -(scores * same).sum() / same.sum()


def correlation(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Compare features instead of samples."""
    a, b = ((side - side.mean(0)) / (side.std(0) + 1e-4) for side in (a, b))
    return (a.T @ b / len(a) - torch.eye(a.shape[1])).square().sum()


SOUND: dict[str, Callable[[], Program]] = {
    "partners": lambda: two_views(lambda a, b: F.cross_entropy(a @ b.T, torch.arange(len(a)))),
    "distances": lambda: two_views(lambda a, b: F.cross_entropy(-torch.cdist(a, b), torch.arange(len(a)))),
    "both-ways": lambda: two_views(
        lambda a, b: F.cross_entropy(a @ b.T, torch.arange(len(a))) + F.cross_entropy(b @ a.T, torch.arange(len(a)))
    ),
    "supervised": lambda: two_views(supervised),
    "features": lambda: two_views(correlation),
    "sigmoid": lambda: two_views(lambda a, b: -F.logsigmoid((a @ b.T) * (2 * torch.eye(len(a)) - 1)).mean()),
    "triplets": lambda: alike(nn.TripletMarginLoss()),
    "triplets-of-cosines": lambda: alike(
        lambda a, p, n: F.relu(F.cosine_similarity(a, n) - F.cosine_similarity(a, p) + 0.3).mean()
    ),
}
FAULTY: dict[str, tuple[Callable[[], Program], str]] = {
    "sign": (lambda: two_views(lambda a, b: -F.cross_entropy(a @ b.T, torch.arange(len(a)))), "bug"),
    "reversed": (lambda: two_views(lambda a, b: F.cross_entropy(a @ b.T, torch.arange(len(a)).flip(0))), "bug"),
    "first-class": (
        lambda: two_views(lambda a, b: F.cross_entropy(a @ b.T, torch.arange(len(a)).roll(1))), "bug",
    ),
    "triplets-exchanged": (lambda: alike(lambda a, p, n: F.triplet_margin_loss(a, n, p)), "suspect"),
}  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_sound_programs_are_silent(name: str) -> None:
    assert not alarms_of(SOUND[name], CHECK)


@pytest.mark.parametrize("name", FAULTY)
def test_faults_are_found(name: str) -> None:
    make, severity = FAULTY[name]
    assert alarms_of(make, CHECK) == [severity]
