"""Failing examples whose targets are not what the loss is made for."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.checks.families import alarms_of
from tests.checks.objective_programs import Program, learned, network, rows, trained
from tests.examples import failing_example

CHECK = "targets-outside-loss-domain"


def halves(low: int = 0) -> torch.Tensor:
    """Return one of two labels for each row."""
    return (rows()[:, 0] > 0).float() * (1 - low) + low


def tags() -> torch.Tensor:
    """Return four labels that hold independently."""
    return (rows()[:, :4] > 0).float()


@failing_example("targets-outside-loss-domain", where="loss_fn")
def labels_of_zero() -> Program:
    """A margin loss of labels 0 and 1."""
    labels = halves()  # fixed: labels = halves(low=-1)
    return trained(network(1), rows(), labels, loss_fn=lambda out, y: F.soft_margin_loss(out[:, 0], y))


@failing_example("targets-outside-loss-domain", where="loss_fn")
def labels_that_exclude_each_other() -> Program:
    """A softmax in front of a binary loss, for labels that hold together."""
    return trained(nn.Sequential(network(4), nn.Softmax(1)), rows(), tags(), loss_fn=nn.BCELoss())


SOUND: dict[str, Callable[[], Program]] = {
    "signs": lambda: learned(lambda out, y: F.soft_margin_loss(out[:, 0], y), halves(-1)),
    "sigmoid": lambda: trained(nn.Sequential(network(4), nn.Sigmoid()), rows(), tags(), loss_fn=nn.BCELoss()),
    "one-label": lambda: trained(
        nn.Sequential(network(4), nn.Softmax(1)), rows(), F.one_hot(rows()[:, :4].argmax(1)).float(),
        loss_fn=nn.BCELoss(),
    ),
    "hinge-by-hand": lambda: learned(lambda out, y: F.relu(1 - out[:, 0] * y).mean(), halves(-1)),
    "masked-margin": lambda: learned(lambda out, y: F.relu(out[:, 0] * y - 1).mean() + out.square().mean(), halves()),
}  # fmt: skip
FAULTY: dict[str, Callable[[], Program]] = {
    "hinge-by-hand": lambda: learned(lambda out, y: F.relu(1 - out[:, 0] * y).mean(), halves()),
    "clamped-hinge": lambda: learned(lambda out, y: (1 - y * out[:, 0]).clamp(min=0).mean(), halves()),
    "ranking": lambda: learned(
        lambda out, y: F.margin_ranking_loss(out[:, 0], out[:, 0].flip(0), y, margin=0.1), halves()
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_programs_are_silent(name: str) -> None:
    assert not alarms_of(SOUND[name], CHECK)


@pytest.mark.parametrize("name", FAULTY)
def test_faults_are_found(name: str) -> None:
    assert alarms_of(FAULTY[name], CHECK) == ["bug"]
