"""Healthy set-ups whose loss stays far from zero, whose outputs are rich, or whose units look like copies."""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.examples import healthy
from tests.zoo.losses import mlp
from tests.zoo.samples import diabetes, digit_rows, seeded, setup, split


@functools.cache
def claims() -> tuple[torch.Tensor, torch.Tensor]:
    """Return five columns and amounts of some hundreds that vary around a mean of their own."""
    rows = torch.randn(1200, 5, generator=seeded(1))
    mean = torch.exp(6 + 0.8 * rows[:, 0] + 0.5 * rows[:, 1].abs())
    waits = torch.empty(1200, 4).exponential_(generator=seeded(2))
    return rows, mean * waits.mean(1)


class Amounts(nn.Module):
    """The logarithm of the expected amount, which starts at the level of the data."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.level = mlp(5, 1), nn.Parameter(claims()[1].mean().log())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return one logarithm a sample."""
        return self.body(x).squeeze(1) + self.level


def gamma_loss(logarithm: torch.Tensor, amount: torch.Tensor) -> torch.Tensor:
    """The negative log-likelihood of a gamma distribution, up to what does not depend on the model."""
    return (logarithm + amount * torch.exp(-logarithm)).mean()


@healthy(epochs=8, good=lambda first, last: last < first - 0.2)
def gamma_amounts() -> dict[str, Any]:
    """A likelihood whose least value is far from zero: right answers remove a few percent of it."""
    return setup(Amounts(), split(*claims()), gamma_loss, lr=3e-3)


@functools.cache
def lists() -> tuple[torch.Tensor, torch.Tensor]:
    """Return lists of ten documents with six features, and grades from 0 to 4."""
    documents = torch.randn(300, 10, 6, generator=seeded(3))
    taste = torch.randn(6, generator=seeded(4))
    return documents, (1.5 + documents @ taste / 2).round().clamp(0, 4)


class Scores(nn.Module):
    """One score for each document of a list."""

    def __init__(self) -> None:
        super().__init__()
        self.body = mlp(6, 1)

    def forward(self, documents: torch.Tensor) -> torch.Tensor:
        """Return (lists, documents)."""
        return self.body(documents).squeeze(-1)


def list_loss(scores: torch.Tensor, grades: torch.Tensor) -> torch.Tensor:
    """Compare the distributions that scores and grades give over the documents of a list."""
    return -(F.softmax(grades, 1) * F.log_softmax(scores, 1)).sum(1).mean()


@healthy(epochs=10, good=lambda first, last: last < 0.9 * first)
def listwise_ranking() -> dict[str, Any]:
    """A loss that leaves the level of the scores open, and keeps the entropy of the grades."""
    return setup(Scores(), split(*lists(), batch_size=16), list_loss, lr=3e-3)


@functools.cache
def folded() -> tuple[torch.Tensor, torch.Tensor]:
    """Return a curve that is no function: up to five answers for one input."""
    answer = 20 * torch.rand(1200, 1, generator=seeded(5)) - 10
    noise = torch.randn(1200, 1, generator=seeded(6))
    return (7 * torch.sin(0.75 * answer) + 0.5 * answer + noise) / 10, answer / 10


class Mixture(nn.Module):
    """Weights, centers and logarithms of the widths of eight normal distributions."""

    def __init__(self, parts: int = 8) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(1, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh())
        self.weight, self.center, self.width = (nn.Linear(40, parts) for _ in range(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return three tensors (samples, parts)."""
        found = self.body(x)
        return self.weight(found), self.center(found), self.width(found).clamp(-5, 3)


def mixture_loss(parts: tuple[torch.Tensor, torch.Tensor, torch.Tensor], answer: torch.Tensor) -> torch.Tensor:
    """The negative log-density of the answer."""
    weight, center, width = parts
    density = -0.5 * ((answer - center) / width.exp()) ** 2 - width - 0.5 * math.log(2 * math.pi)
    return -torch.logsumexp(F.log_softmax(weight, -1) + density, -1).mean()


@healthy(epochs=20, good=lambda first, last: last < first - 0.8)
def folded_mixture() -> dict[str, Any]:
    """An output so rich that it learns the answers of a few samples without looking at them."""
    return setup(Mixture(), split(*folded(), batch_size=128), mixture_loss, lr=5e-3)


class Uncertain(nn.Module):
    """A linear layer whose weights are drawn at each pass; all widths start alike, and the centers do not."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.center = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        self.width = nn.Parameter(torch.full((outputs, inputs), -4.0))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Draw the weights and apply them."""
        drawn = self.center + F.softplus(self.width) * torch.randn_like(self.width)
        return F.linear(x, drawn, self.bias)

    def divergence(self) -> torch.Tensor:
        """Measure how far the weights are from standard normal ones."""
        width = F.softplus(self.width)
        return (-width.log() + 0.5 * (width**2 + self.center**2) - 0.5).sum()


def bayesian_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Add what the certainty of the weights costs."""
    cost = torch.stack([layer.divergence() for layer in model if isinstance(layer, Uncertain)]).sum()
    return loss_fn(model(batch[0]), batch[1]) + cost / 3000


@healthy(epochs=15, good=lambda first, last: last < 0.7 * first)
def bayes_by_backprop() -> dict[str, Any]:
    """Weights of two kinds in one layer, of which one starts at a constant."""
    model = nn.Sequential(Uncertain(10, 24), nn.ReLU(), Uncertain(24, 1))
    return setup(model, split(*diabetes(), batch_size=32), nn.MSELoss(), lr=5e-3, compute_loss=bayesian_loss)


@healthy(epochs=10, good=lambda first, last: last < 0.8 * first)
def map_of_digits() -> dict[str, Any]:
    """An autoencoder with two numbers in the middle, whose data set gives the noisy picture and the clean one."""
    rows = digit_rows()[0]
    noisy = rows + 0.1 * torch.randn(rows.shape, generator=seeded(7))
    model = nn.Sequential(mlp(64, 2), mlp(2, 64))
    return setup(model, split(noisy, rows), nn.MSELoss(), lr=3e-3)
