"""Failing examples that take the exponential of something positive."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.checks.families import alarms_of
from tests.checks.objective_programs import Program, counts, learned
from tests.examples import failing_example

CHECK = "exponential-applied-twice"


@failing_example("exponential-applied-twice", where="loss_fn")
def rate_as_its_logarithm() -> Program:
    """A rate that is read as a log rate."""
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1), nn.Softplus(), nn.Flatten(0))
    loss_fn = nn.PoissonNLLLoss()  # fixed: loss_fn = nn.PoissonNLLLoss(log_input=False)
    return {**counts(model), "loss_fn": loss_fn}


@failing_example("exponential-applied-twice", where="compute_loss")
def variance_as_its_logarithm() -> Program:
    """A variance by softplus, and `exp` of it in the likelihood."""

    def loss(out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        variance = F.softplus(out[:, 1]) + 1e-3
        return (variance + (y - out[:, 0]).square() / variance.exp()).mean() / 2

    return learned(loss, torch.randn(96), out=2)


SOUND: dict[str, Callable[[], Program]] = {
    "log-rate": lambda: {**counts(nn.Sequential(nn.Linear(8, 1), nn.Flatten(0))), "loss_fn": nn.PoissonNLLLoss()},
    "rate": lambda: {
        **counts(nn.Sequential(nn.Linear(8, 1), nn.Softplus(), nn.Flatten(0))),
        "loss_fn": nn.PoissonNLLLoss(log_input=False),
    },
    "log-variance": lambda: learned(
        lambda out, y: (out[:, 1] + (y - out[:, 0]).square() / out[:, 1].exp()).mean(), torch.randn(96), out=2
    ),
    "cloglog": lambda: learned(
        lambda out, y: F.binary_cross_entropy(1 - (-out[:, 0].exp()).exp() * 0.99, (y > 0).float()), torch.randn(96)
    ),
    "bounded": lambda: learned(
        lambda out, y: ((2 * out[:, 0].sigmoid()).exp() - y.exp()).square().mean(), torch.randn(96)
    ),
}
FAULTY: dict[str, Callable[[], Program]] = {
    "exp-of-exp": lambda: learned(lambda out, y: (out.exp()[:, 0].exp() - y.exp()).square().mean(), torch.randn(96)),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_programs_are_silent(name: str) -> None:
    assert not alarms_of(SOUND[name], CHECK)


@pytest.mark.parametrize("name", FAULTY)
def test_faults_are_found(name: str) -> None:
    assert alarms_of(FAULTY[name], CHECK) == ["suspect"]
