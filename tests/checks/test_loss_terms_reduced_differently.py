"""Failing examples that add sums to means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.examples import failing_example
from tests.programs import program
from tests.zoo.samples import digit_rows, friedman

CHECK = "loss-terms-reduced-differently"
Terms = Callable[..., torch.Tensor]


class Autoencoder(nn.Module):
    """A variational autoencoder of rows."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(width, 2 * 6), nn.Linear(6, width)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return a reconstruction, a mean and a log variance."""
        mean, log_variance = self.encoder(x).chunk(2, 1)
        drawn = mean + (0.5 * log_variance).exp() * torch.randn_like(mean) if self.training else mean
        return self.decoder(drawn), mean, log_variance


def divergence(mean: torch.Tensor, log_variance: torch.Tensor) -> torch.Tensor:
    return -0.5 * (1 + log_variance - mean**2 - log_variance.exp())


def vae(terms: Terms) -> dict[str, Any]:
    loader = DataLoader(TensorDataset(digit_rows()[0]), 64, shuffle=True)
    return {"model": Autoencoder(), "loader": loader, "compute_loss": lambda m, batch, _: terms(*m(batch[0]), batch[0])}


@failing_example(CHECK, where="loss_fn")
def divergence_summed_over_the_batch() -> dict[str, Any]:
    """A mean squared error with a divergence that is summed over all samples."""

    def terms(output: torch.Tensor, mean: torch.Tensor, log_variance: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        kl = divergence(mean, log_variance).sum()  # fixed: kl = divergence(mean, log_variance).mean()
        return F.mse_loss(output, x) + kl

    return vae(terms)


class TwoAnswers(nn.Module):
    """A class and a number from one body."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 32), nn.ReLU())
        self.digit, self.size = nn.Linear(32, 10), nn.Linear(32, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return logits and a number."""
        hidden = self.body(x)
        return self.digit(hidden), self.size(hidden)[:, 0]


def two_tasks(terms: Terms) -> dict[str, Any]:
    rows, labels = digit_rows()
    return program("compute_loss", TwoAnswers(), rows, labels, lambda output, y: terms(*output, y))


@failing_example(CHECK, where="loss_fn")
def two_tasks_of_two_reductions() -> dict[str, Any]:
    """A mean cross-entropy with a summed squared error."""
    return two_tasks(
        lambda logits, size, y: F.cross_entropy(logits, y) + F.mse_loss(size, y / 10, reduction="sum"),
    )


@failing_example(CHECK, where="loss_fn")
def consistency_summed_in_a_step() -> dict[str, Any]:
    """A training step whose second term is a sum over samples."""
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
    return program("train_step", net, *friedman(), lambda o, y: F.mse_loss(o, y) + (o - o.mean()).abs().sum())


HEALTHY: dict[str, Callable[[], dict[str, Any]]] = {
    "both summed": lambda: vae(lambda o, m, v, x: F.mse_loss(o, x, reduction="sum") + divergence(m, v).sum()),
    "both averaged": lambda: vae(lambda o, m, v, x: F.mse_loss(o, x) + divergence(m, v).mean()),
    "per sample": lambda: vae(lambda o, m, v, x: ((o - x) ** 2).sum(1).mean() + divergence(m, v).sum(1).mean()),
    "divided by the batch": lambda: vae(lambda o, m, v, x: F.mse_loss(o, x) + divergence(m, v).sum() / x.numel()),
    "small weight": lambda: vae(lambda o, m, v, x: F.mse_loss(o, x) + 1e-4 * divergence(m, v).sum()),
    "two means": lambda: two_tasks(lambda o, s, y: F.cross_entropy(o, y) + F.mse_loss(s, y / 10)),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_one_reduction_is_healthy(name: str) -> None:
    """All terms are reduced alike, or the sum is scaled on purpose."""
    torch.manual_seed(0)
    report = nbdebug.diagnose(**HEALTHY[name](), progress=False, checks=[CHECK])
    assert not report.alarms, [str(f) for f in report.alarms]


def test_a_penalty_on_weights_is_no_term_of_the_batch() -> None:
    """A summed likelihood with a prior on the weights, as in Bayesian regression."""
    net = nn.Linear(10, 1)
    setup = program(
        "plain",
        net,
        *friedman(),
        lambda o, y: F.mse_loss(o, y, reduction="sum") + sum(p.abs().mean() for p in net.parameters()),
    )
    assert not nbdebug.diagnose(**setup, progress=False, checks=[CHECK]).alarms
