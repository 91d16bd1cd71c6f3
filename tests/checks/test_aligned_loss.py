"""Losses that cost more where predictions equal their targets, of any shape."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from tests.checks.families import alarms_of
from tests.checks.objective_programs import Loss, Program, learned, network, rows, trained

CHECK = "loss-sign-flipped"


def segmented(loss: Loss) -> Program:
    """Return a program whose outputs are probabilities of a mask."""
    return trained(nn.Sequential(network(8), nn.Sigmoid()), rows(), (rows() > 0.3).float(), loss_fn=loss)


def overlap(p: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the mean Dice coefficient."""
    return ((2 * (p * y).sum(1) + 1) / (p.sum(1) + y.sum(1) + 1)).mean()


SOUND: dict[str, Callable[[], Program]] = {
    "overlap": lambda: segmented(lambda p, y: 1 - overlap(p, y)),
    "costs": lambda: learned(lambda out, cost: (out[:, 0].sigmoid() * cost).mean(), (rows()[:, 0] > 0).float()),
    "rewards": lambda: learned(lambda out, reward: -(out[:, 0].sigmoid() * reward).mean(), rows()[:, 0]),
}
FAULTY: dict[str, Callable[[], Program]] = {
    "overlap": lambda: segmented(overlap),
    "intersection": lambda: segmented(lambda p, y: ((p * y).sum(1) / (p + y - p * y).sum(1).clamp(min=1)).mean()),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_programs_are_silent(name: str) -> None:
    assert not alarms_of(SOUND[name], CHECK)


@pytest.mark.parametrize("name", FAULTY)
def test_faults_are_found(name: str) -> None:
    assert alarms_of(FAULTY[name], CHECK) == ["bug"]
