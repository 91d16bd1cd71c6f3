"""Healthy set-ups whose objective is neither a class nor a number: alignments, chains, quantiles, mixtures, margins."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.examples import healthy
from tests.zoo.losses import mlp
from tests.zoo.samples import digit_rows, friedman, seeded, setup, split


@functools.cache
def stretched_words() -> tuple[torch.Tensor, torch.Tensor]:
    """Return words of four letters out of five, each letter held for three noisy steps: features and letters."""
    letters = torch.randint(1, 6, (500, 4), generator=seeded(1))
    steps = letters.repeat_interleave(3, 1)
    return F.one_hot(steps, 6).float() + 0.2 * torch.randn(500, 12, 6, generator=seeded(2)), letters


class Reader(nn.Module):
    """Log-probabilities of every letter, or of none, at every step."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent, self.head = nn.GRU(6, 32, batch_first=True), nn.Linear(32, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (samples, steps, letters)."""
        return self.head(self.recurrent(x)[0]).log_softmax(-1)


def alignment_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Let the letters fall on any steps in their order."""
    x, letters = batch
    said = model(x).transpose(0, 1)
    return loss_fn(said, letters, torch.full((len(x),), 12), torch.full((len(x),), 4))


@healthy(epochs=8, good=lambda first, last: last < 0.4 * first)
def alignment_by_ctc() -> dict[str, Any]:
    """Targets shorter than outputs, with no place of their own."""
    data = split(*stretched_words(), batch_size=32)
    return setup(Reader(), data, nn.CTCLoss(zero_infinity=True), lr=1e-2, compute_loss=alignment_loss)


class ChainField(nn.Module):
    """Scores of tags and of their successions; the loss is the log-likelihood of the whole chain."""

    def __init__(self, tags: int = 3) -> None:
        super().__init__()
        self.words = nn.Embedding(12, 16)
        self.recurrent = nn.LSTM(16, 16, batch_first=True, bidirectional=True)
        self.emit, self.follow = nn.Linear(32, tags), nn.Parameter(torch.zeros(tags, tags))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Score the tags of every place."""
        return self.emit(self.recurrent(self.words(tokens))[0])

    def log_likelihood(self, scores: torch.Tensor, tags: torch.Tensor) -> torch.Tensor:
        """Compare the chain that is right with all chains."""
        right = scores.gather(2, tags[..., None]).sum((1, 2)) + self.follow[tags[:, :-1], tags[:, 1:]].sum(1)
        total = scores[:, 0]
        for step in range(1, scores.shape[1]):
            total = torch.logsumexp(total[:, :, None] + self.follow, 1) + scores[:, step]
        return right - torch.logsumexp(total, 1)


def chain_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
    """The chain that is right should be the most likely."""
    tokens, tags = batch
    return -model.log_likelihood(model(tokens), tags).mean()


@healthy(epochs=8, good=lambda first, last: last < 0.5 * first)
def conditional_random_field() -> dict[str, Any]:
    """A parameter that only the loss uses, and that begins at zero."""
    tokens = torch.randint(0, 12, (400, 8), generator=seeded(3))
    tags = (tokens % 2 + torch.roll(tokens, 1, 1) % 2 * (torch.arange(8) > 0)) % 3
    return setup(ChainField(), split(tokens, tags, batch_size=32), compute_loss=chain_loss, lr=1e-2)


def pinball(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Judge three quantiles of one target."""
    shares = torch.tensor([0.1, 0.5, 0.9])
    error = target - output
    return torch.maximum(shares * error, (shares - 1) * error).mean()


@healthy(epochs=10, good=lambda first, last: last < 0.6 * first)
def quantile_regression() -> dict[str, Any]:
    """Three outputs against one target: a broadcast on purpose."""
    return setup(mlp(10, 3), split(*friedman(), batch_size=32), pinball)


class Mixture(nn.Module):
    """Weights, means and spreads of four bells."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Linear(1, 48), nn.Tanh()), nn.Linear(48, 12)

    def forward(self, x: torch.Tensor) -> torch.distributions.Distribution:
        """Return a distribution."""
        weights, means, spreads = self.head(self.body(x)).chunk(3, -1)
        bells = torch.distributions.Normal(means, F.softplus(spreads) + 0.05)
        return torch.distributions.MixtureSameFamily(torch.distributions.Categorical(logits=weights), bells)


@healthy(epochs=25, good=lambda first, last: last < first - 0.5)
def mixture_density() -> dict[str, Any]:
    """The output is a distribution object; the answer has several branches."""
    y = 2 * torch.rand(1000, 1, generator=seeded(7)) - 1
    x = y + 0.5 * torch.sin(6.28 * y) + 0.05 * torch.randn(1000, 1, generator=seeded(8))
    data = split(x, y[:, 0], batch_size=50)
    return setup(Mixture(), data, lambda said, target: -said.log_prob(target).mean(), lr=1e-2)


@healthy(epochs=10, accuracy=0.9)
def rare_labels_weighted_up() -> dict[str, Any]:
    """Ten yes-or-no questions, each of which nearly always has the answer no."""
    rows, labels = digit_rows()
    loss_fn = nn.BCEWithLogitsLoss(pos_weight=torch.full((10,), 9.0))
    return setup(mlp(64, 10), split(rows, F.one_hot(labels, 10).float()), loss_fn)


class Cosine(nn.Module):
    """Classes by the angle to their own vector, sharpened by a temperature that is learnt."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32))
        self.classes = nn.Parameter(torch.randn(10, 32))
        self.log_scale = nn.Parameter(torch.tensor(2.3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Measure angles."""
        return self.log_scale.exp() * F.normalize(self.body(x), dim=1) @ F.normalize(self.classes, dim=1).T


@healthy(epochs=6, accuracy=0.9)
def cosine_classifier() -> dict[str, Any]:
    """Logits that are bounded by a learnt number."""
    return setup(Cosine(), split(*digit_rows()), nn.CrossEntropyLoss())


@healthy(epochs=6, good=lambda first, last: last < 0.3 * first, accuracy=0.9)
def support_vector_loss() -> dict[str, Any]:
    """Margins instead of probabilities."""
    return setup(mlp(64, 10), split(*digit_rows()), nn.MultiMarginLoss())


def log_cosh(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Square near zero, absolute far away."""
    error = output - target
    return (error + F.softplus(-2 * error) - 0.6931472).mean()


@healthy(epochs=10, good=lambda first, last: last < 0.4 * first)
def log_cosh_regression() -> dict[str, Any]:
    """A loss of one's own for real numbers."""
    return setup(mlp(10, 1), split(*friedman(), batch_size=32), log_cosh)
