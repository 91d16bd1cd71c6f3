"""Failing examples whose divergence reads another width than they sample with."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

from tests.checks.families import alarms_of
from tests.checks.objective_programs import Program, autoencoder, normal_divergence
from tests.examples import failing_example

CHECK = "divergence-of-another-width"


@failing_example("divergence-of-another-width", where="compute_loss")
def logarithm_of_another_power() -> Program:
    """The layer returns a log standard deviation, and the divergence reads a log variance."""
    return autoencoder(normal_divergence, width=torch.exp)
    # fixed: return autoencoder(normal_divergence, width=lambda code: (0.5 * code).exp())


@failing_example("divergence-of-another-width", where="compute_loss")
def divergence_that_is_maximized() -> Program:
    """The sign of the divergence is wrong."""
    return autoencoder(lambda mean, code, width: -normal_divergence(mean, code, width))


def of_distributions(mean: torch.Tensor, code: torch.Tensor, width: torch.Tensor) -> torch.Tensor:
    """Leave it to torch, with a narrow prior."""
    prior = torch.distributions.Normal(0.0, torch.full(mean.shape[1:], 0.3))
    return torch.distributions.kl_divergence(torch.distributions.Normal(mean, width), prior).sum(1).mean()


SOUND: dict[str, Callable[[], Program]] = {
    "log-variance": lambda: autoencoder(normal_divergence),
    "mean-of-all": lambda: autoencoder(lambda m, c, w: 0.1 * -0.5 * torch.mean(1 + c - m.pow(2) - c.exp())),
    "log-deviation": lambda: autoencoder(
        lambda m, c, w: -0.5 * (1 + 2 * c - m**2 - (2 * c).exp()).sum(1).mean(), width=torch.exp
    ),
    "softplus": lambda: autoencoder(of_distributions, width=lambda code: F.softplus(code) + 1e-4),
    "free-bits": lambda: autoencoder(lambda m, c, w: (0.5 * (m**2 + c.exp() - 1 - c)).clamp(min=0.3).sum(1).mean()),
    "sampled": lambda: autoencoder(lambda m, c, w: (m + w * torch.randn_like(w)).square().mean() - w.log().mean()),
    "no-divergence": lambda: autoencoder(lambda m, c, w: m.square().mean()),
}
FAULTY: dict[str, Callable[[], Program]] = {
    "not-squared": lambda: autoencoder(
        lambda m, c, w: -0.5 * (1 + 2 * c - m**2 - c.exp()).sum(1).mean(), width=torch.exp
    ),
    "squared-once-more": lambda: autoencoder(lambda m, c, w: -0.5 * (1 + 2 * c - m**2 - c.exp() ** 2).sum(1).mean()),
    "deviation-for-logarithm": lambda: autoencoder(lambda m, c, w: normal_divergence(m, w, w)),
    "variance-for-logarithm": lambda: autoencoder(lambda m, c, w: normal_divergence(m, w**2, w)),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_programs_are_silent(name: str) -> None:
    assert not alarms_of(SOUND[name], CHECK)


@pytest.mark.parametrize("name", FAULTY)
def test_faults_are_found(name: str) -> None:
    assert alarms_of(FAULTY[name], CHECK) == ["bug"]
