"""Healthy set-ups that learn codes, as tutorials write them: auto-encoders, a critic, triplets, word vectors."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from tests.examples import healthy
from tests.zoo.samples import chain_tokens, digit_images, digit_rows, seeded, setup, split


class Vae(nn.Module):
    """The auto-encoder of the tutorials."""

    def __init__(self, inputs: int = 64, hidden: int = 128, code: int = 8) -> None:
        super().__init__()
        self.fc1, self.fc21, self.fc22 = nn.Linear(inputs, hidden), nn.Linear(hidden, code), nn.Linear(hidden, code)
        self.fc3, self.fc4 = nn.Linear(code, hidden), nn.Linear(hidden, inputs)

    def encode(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return where the code is and the logarithm of its variance."""
        hidden = F.relu(self.fc1(x))
        return self.fc21(hidden), self.fc22(hidden)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the picture again, and its code."""
        mu, logvar = self.encode(x.flatten(1))
        z = mu + torch.exp(0.5 * logvar) * torch.randn_like(mu)
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mu, logvar


def elbo(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Reconstruction and divergence, for one sample."""
    x, _ = batch
    again, mu, logvar = model(x)
    bce = F.binary_cross_entropy(again, x.flatten(1), reduction="sum")
    return (bce - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())) / len(x)


@healthy(epochs=8, good=lambda first, last: last < 0.85 * first)
def vae_of_digits() -> dict[str, Any]:
    """The loader gives labels that nobody asks for."""
    return setup(Vae(), split(*digit_images()), compute_loss=elbo, lr=2e-3)


class Denoiser(nn.Module):
    """Convolutions down and up again."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(),
        )  # fmt: skip
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(32, 16, 2, 2), nn.ReLU(), nn.ConvTranspose2d(16, 1, 2, 2), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the clean picture."""
        return self.decoder(self.encoder(x))


def denoising(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Ask for the picture without the noise."""
    images = batch[0]
    noisy = (images + 0.2 * torch.randn_like(images)).clamp(0, 1)
    return loss_fn(model(noisy), images)


@healthy(epochs=10, good=lambda first, last: last < 0.5 * first)
def pictures_without_noise() -> dict[str, Any]:
    """The noise is new in every step."""
    return setup(Denoiser(), split(digit_images()[0], batch_size=32), nn.MSELoss(), compute_loss=denoising)


class Discriminator(nn.Module):
    """A critic of pictures beside the generator that it judges."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(16, 32, 3, 2, 1), nn.LeakyReLU(0.2),
        )  # fmt: skip
        self.out = nn.Linear(128, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a logit: true or made."""
        return self.out(self.features(x).flatten(1)).squeeze(1)


def real_or_fake(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Judge true pictures beside pictures that a bad generator would make."""
    real = batch[0]
    fake = torch.rand_like(real) * real.mean(0, keepdim=True) * 2
    ones, zeros = torch.ones(len(real)), torch.zeros(len(real))
    return (loss_fn(model(real), ones) + loss_fn(model(fake.detach()), zeros)) / 2


@healthy(epochs=6)
def discriminator_of_a_gan() -> dict[str, Any]:
    """One half of a GAN, with Adam as DCGAN has it."""
    model = Discriminator()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.5, 0.999))
    loss_fn = nn.BCEWithLogitsLoss()
    return setup(model, split(*digit_images()), loss_fn, compute_loss=real_or_fake, optimizer=optimizer)


class Triplets(Dataset[Any]):
    """A digit, another of its kind, and one of another kind."""

    def __init__(self, rows: torch.Tensor, labels: torch.Tensor) -> None:
        self.rows, self.labels = rows, labels

    def __len__(self) -> int:
        """Count the anchors."""
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Draw the two others at random."""
        same = (self.labels == self.labels[index]).nonzero().flatten()
        other = (self.labels != self.labels[index]).nonzero().flatten()
        pick = [int(one[torch.randint(len(one), ())]) for one in (same, other)]
        return self.rows[index], self.rows[pick[0]], self.rows[pick[1]]


def triplet_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """One network for all three."""
    anchor, positive, negative = batch
    return loss_fn(model(anchor), model(positive), model(negative))


@healthy(epochs=6)
def triplets_of_digits() -> dict[str, Any]:
    """Embeddings by `TripletMarginLoss`."""
    rows, labels = digit_rows()
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 16))
    loaders = (
        DataLoader(Triplets(rows[:1200], labels[:1200]), 64, shuffle=True),
        DataLoader(Triplets(rows[1200:], labels[1200:]), 128),
    )
    return setup(model, loaders, nn.TripletMarginLoss(margin=1.0), compute_loss=triplet_loss, lr=1e-3)


class SkipGram(nn.Module):
    """Two tables of word vectors whose gradients are sparse."""

    def __init__(self, words: int, width: int = 16) -> None:
        super().__init__()
        self.center = nn.Embedding(words, width, sparse=True)
        self.context = nn.Embedding(words, width, sparse=True)
        nn.init.uniform_(self.center.weight, -0.5 / width, 0.5 / width)
        nn.init.zeros_(self.context.weight)

    def forward(self, center: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        """Return how well each context fits its center."""
        return (self.center(center)[:, None] * self.context(context)).sum(-1)


def negative_sampling(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """The true context first, five drawn ones behind."""
    center, context, drawn = batch
    scores = model(center, torch.cat([context[:, None], drawn], 1))
    return -(F.logsigmoid(scores[:, 0]) + F.logsigmoid(-scores[:, 1:]).sum(1)).mean()


@healthy(epochs=6, good=lambda first, last: last < 0.8 * first)
def word_vectors() -> dict[str, Any]:
    """word2vec with `SparseAdam`; the vectors begin as the original has them, the contexts at zero."""
    tokens = chain_tokens(300, 16, 24)
    center, context = tokens[:, :-1].flatten(), tokens[:, 1:].flatten()
    drawn = torch.randint(1, 24, (len(center), 5), generator=seeded(5))
    model = SkipGram(24)
    optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=1e-2)
    loaders = split(center, context, drawn, batch_size=128)
    return setup(model, loaders, compute_loss=negative_sampling, optimizer=optimizer)
