"""Healthy set-ups that make or compare rather than predict: autoencoders, parts of GANs, embeddings of images."""

from __future__ import annotations

import copy
import functools
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.examples import healthy
from tests.zoo.samples import digit_rows, seeded, setup, split


def encoder(width: int = 16) -> nn.Sequential:
    """Map a digit to a few numbers."""
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, width))


@healthy(epochs=8, good=lambda first, last: last < 0.5 * first)
def autoencoder_without_target() -> dict[str, Any]:
    """The input is the target."""
    rows, _ = digit_rows()
    model = nn.Sequential(encoder(), nn.ReLU(), nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.Sigmoid())
    return setup(model, split(rows), nn.MSELoss())


class Vae(nn.Module):
    """Gives the picture again, with the mean and the log-variance of its code."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
        self.mean, self.spread = nn.Linear(64, 8), nn.Linear(64, 8)
        self.decoder = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Draw the code in training, and take its mean in use."""
        hidden = self.body(x)
        mean, log_variance = self.mean(hidden), self.spread(hidden)
        code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp() if self.training else mean
        return self.decoder(code), mean, log_variance


def vae_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Reconstruction with a little of the distance to the prior."""
    (x,) = batch
    again, mean, log_variance = model(x)
    prior = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1).mean()
    return nn.functional.binary_cross_entropy_with_logits(again, x, reduction="sum") / len(x) + 0.1 * prior


@healthy(epochs=6, good=lambda first, last: last < 0.8 * first)
def variational_autoencoder() -> dict[str, Any]:
    """A loss of two terms that only `compute_loss` can put together, far from zero at its best."""
    rows, _ = digit_rows()
    return setup(Vae(), split(rows), compute_loss=vae_loss)


def critic() -> nn.Sequential:
    """A discriminator between digits and anything else."""
    return nn.Sequential(nn.Linear(64, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1))


@functools.cache
def real_and_fake() -> tuple[torch.Tensor, torch.Tensor]:
    """Return real digits and digits whose pixels were mixed between digits, with 1 and 0."""
    rows, _ = digit_rows()
    mixed = torch.stack([column[torch.randperm(len(rows), generator=seeded(i))] for i, column in enumerate(rows.T)], 1)
    return torch.cat([rows, mixed]), torch.cat([torch.ones(len(rows), 1), torch.zeros(len(rows), 1)])


@healthy(epochs=6, accuracy=0.9)
def discriminator_alone() -> dict[str, Any]:
    """One half of a GAN."""
    return setup(critic(), split(*real_and_fake(), batch_size=64), nn.BCEWithLogitsLoss())


class ThroughCritic(nn.Module):
    """A generator, judged by a critic that is not trained now."""

    def __init__(self, judge: nn.Module) -> None:
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Linear(48, 64), nn.Sigmoid())
        self.judge = judge.requires_grad_(False)

    def forward(self, noise: torch.Tensor) -> torch.Tensor:
        """Say how real the generator's picture looks."""
        return self.judge(self.generator(noise))


def fool_the_critic(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Every picture should pass as real."""
    judged = model(batch[0])
    return nn.functional.binary_cross_entropy_with_logits(judged, torch.ones_like(judged))


@functools.cache
def trained_critic(seed: int) -> nn.Sequential:
    """Return a critic that knows its trade."""
    judge = critic()
    learn = torch.optim.Adam(judge.parameters(), lr=3e-3)
    x, y = real_and_fake()
    for _ in range(60):
        learn.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(judge(x), y).backward()
        learn.step()
    return judge


@healthy(epochs=5, good=lambda first, last: last < 0.5 * first)
def generator_through_frozen_critic() -> dict[str, Any]:
    """The other half: noise in, no target, the end of the model frozen."""
    model = ThroughCritic(copy.deepcopy(trained_critic(torch.initial_seed())))
    noise = DataLoader(TensorDataset(torch.randn(1000, 8, generator=seeded(3))), 50, shuffle=True)
    optimizer = torch.optim.Adam(model.generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
    return {"model": model, "loader": noise, "compute_loss": fool_the_critic, "optimizer": optimizer}


def contrast(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Let two noisy views of a sample find each other among all views of the batch."""
    (x,) = batch
    views = torch.cat([x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)])
    codes = nn.functional.normalize(model(views), dim=1)
    alike = (codes @ codes.T / 0.2).masked_fill(torch.eye(len(codes), dtype=torch.bool), float("-inf"))
    partner = torch.arange(len(codes)).roll(len(x))
    return nn.functional.cross_entropy(alike, partner)


@healthy(epochs=5, good=lambda first, last: last < 0.8 * first)
def contrastive_learning() -> dict[str, Any]:
    """A loss in which the samples of a batch are compared with each other."""
    rows, _ = digit_rows()
    return setup(encoder(), split(rows), compute_loss=contrast, lr=1e-3)


@functools.cache
def triplets() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return anchors, another digit of the same kind, and a digit of another kind."""
    rows, labels = digit_rows()
    same, other = [], []
    generator = seeded(4)
    for label in labels.tolist():
        for chosen, pool in ((same, labels == label), (other, labels != label)):
            candidates = pool.nonzero().flatten()
            chosen.append(int(candidates[torch.randint(len(candidates), (), generator=generator)]))
    return rows, rows[same], rows[other]


def triplet_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Pull the pair together and push the stranger away."""
    anchor, same, other = batch
    return loss_fn(model(anchor), model(same), model(other))


@healthy(epochs=5, good=lambda first, last: last < 0.5 * first)
def triplet_metric_learning() -> dict[str, Any]:
    """Three inputs, one model, no target."""
    data = split(*triplets())
    return setup(encoder(), data, nn.TripletMarginLoss(margin=0.5), compute_loss=triplet_loss, lr=1e-3)


class Siamese(nn.Module):
    """Two digits through the same encoder: are they of one kind?"""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.head = encoder(32), nn.Linear(32, 1)

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """Judge the distance of the codes."""
        return self.head((self.encoder(left) - self.encoder(right)).abs())


@healthy(epochs=5, accuracy=0.85)
def siamese_network() -> dict[str, Any]:
    """Shared weights, called twice in one pass."""
    rows, same, other = triplets()
    left, right = torch.cat([rows, rows]), torch.cat([same, other])
    alike = torch.cat([torch.ones(len(rows), 1), torch.zeros(len(rows), 1)])
    return setup(Siamese(), split(left, right, alike), nn.BCEWithLogitsLoss())
