"""Healthy set-ups whose layers are uncommon: generated weights, loops, gates, noise and mixing on purpose."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import spectral_norm

from tests.examples import healthy
from tests.zoo.generative import real_and_fake
from tests.zoo.losses import mlp
from tests.zoo.samples import digit_images, digit_rows, friedman, seeded, setup, split


class StandardConv(nn.Conv2d):
    """A convolution whose filters have mean 0 and spread 1."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Standardize the filters, then use them."""
        centered = self.weight - self.weight.mean((1, 2, 3), keepdim=True)
        fan = centered[0].numel()
        return self._conv_forward(x, centered / (centered.std((1, 2, 3), keepdim=True) * fan**0.5 + 1e-5), self.bias)


@healthy(epochs=3, accuracy=0.9)
def standardized_weights_in_small_batches() -> dict[str, Any]:
    """Weight standardization with group normalization, four samples at a time."""
    model = nn.Sequential(
        StandardConv(1, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU(), nn.MaxPool2d(2),
        StandardConv(16, 32, 3, padding=1), nn.GroupNorm(8, 32), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip
    return setup(model, split(*digit_images(), batch_size=4), nn.CrossEntropyLoss(), lr=1e-3)


class Modulated(nn.Module):
    """A condition that scales and shifts what is hidden."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.film, self.head = nn.Linear(64, 64), nn.Embedding(4, 128), nn.Linear(64, 10)
        nn.init.zeros_(self.film.weight)

    def forward(self, x: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
        """Read a digit that was turned by so many quarters."""
        scale, shift = self.film(turn).chunk(2, 1)
        return self.head(F.relu((1 + scale) * self.body(x) + shift))


@healthy(epochs=12, accuracy=0.8)
def feature_wise_modulation() -> dict[str, Any]:
    """A second input that begins without any influence."""
    rows, labels = digit_rows()
    turns = torch.randint(0, 4, (len(rows),), generator=seeded(1))
    turned = torch.stack([torch.rot90(r.view(8, 8), int(t)).reshape(64) for r, t in zip(rows, turns, strict=True)])
    return setup(Modulated(), split(turned, turns, labels), nn.CrossEntropyLoss(), lr=5e-3)


class SqueezeExcite(nn.Module):
    """Channels that are weighed by what is in all of them."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weigh = nn.Sequential(nn.Linear(channels, channels // 4), nn.ReLU(), nn.Linear(channels // 4, channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Weigh the channels."""
        return x * torch.sigmoid(self.weigh(x.mean((2, 3))))[..., None, None]


@healthy(epochs=5, accuracy=0.9)
def squeeze_and_excitation() -> dict[str, Any]:
    """A gate over channels, four units wide."""
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), SqueezeExcite(16), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), SqueezeExcite(32),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip
    return setup(model, split(*digit_images()), nn.CrossEntropyLoss(), lr=5e-3)


class Flow(nn.Module):
    """Small steps along a field that is learnt."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.head = nn.Linear(64, 32), nn.Linear(32, 10)
        self.field = nn.Sequential(nn.Linear(33, 64), nn.Tanh(), nn.Linear(64, 32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Follow the field for eight steps."""
        state = self.enter(x)
        for step in range(8):
            time = torch.full((len(x), 1), step / 8)
            state = state + self.field(torch.cat([state, time], 1)) / 8
        return self.head(state)


@healthy(epochs=6, accuracy=0.9)
def differential_equation() -> dict[str, Any]:
    """The same layers, eight times in one pass."""
    return setup(Flow(), split(*digit_rows()), nn.CrossEntropyLoss())


class Generated(nn.Module):
    """A network whose weights are made by another, for every sample anew."""

    def __init__(self) -> None:
        super().__init__()
        self.maker = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 5 * 16 + 16))
        self.head = nn.Linear(16, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Make the weights from one half of the columns and use them on the other."""
        made = self.maker(x[:, :5])
        weight, bias = made[:, :80].view(-1, 16, 5), made[:, 80:]
        return self.head(torch.tanh(torch.einsum("nhi,ni->nh", weight, x[:, 5:]) + bias))


@healthy(epochs=15, good=lambda first, last: last < 0.5 * first)
def hypernetwork() -> dict[str, Any]:
    """Weights that are activations."""
    rows, target = friedman()
    rows = rows[:, torch.tensor([0, 2, 4, 6, 8, 1, 3, 5, 7, 9])]
    return setup(Generated(), split(rows, target, batch_size=32), nn.MSELoss())


class FakeQuantised(nn.Linear):
    """A layer whose weights are rounded to sixteen levels, and trained as if they were not."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Round, and let the gradient pass."""
        step = self.weight.detach().abs().max() / 8
        rounded = (self.weight / step).round().clamp(-8, 7) * step
        return F.linear(x, self.weight + (rounded - self.weight).detach(), self.bias)


@healthy(epochs=6, accuracy=0.9)
def quantization_aware() -> dict[str, Any]:
    """Weights in four bits."""
    model = nn.Sequential(FakeQuantised(64, 64), nn.ReLU(), FakeQuantised(64, 10))
    return setup(model, split(*digit_rows()), nn.CrossEntropyLoss())


class TiedAutoencoder(nn.Module):
    """The decoder is the encoder, turned round."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.bias = nn.Linear(64, 24), nn.Parameter(torch.zeros(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Encode and decode with one matrix."""
        return F.linear(F.relu(self.encoder(x)), self.encoder.weight.T, self.bias)


@healthy(epochs=10, good=lambda first, last: last < 0.4 * first)
def tied_autoencoder() -> dict[str, Any]:
    """One matrix, used twice."""
    return setup(TiedAutoencoder(), split(digit_rows()[0]), nn.MSELoss())


class BatchSpread(nn.Module):
    """Adds how much the samples of the batch differ, so that a critic can see a generator that always says the same."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Append one column: the mean spread over the batch."""
        spread = (x.var(0, unbiased=False) + 1e-8).sqrt().mean()
        return torch.cat([x, spread.expand(len(x), 1)], 1)


@healthy(epochs=8, accuracy=0.85)
def critic_that_sees_the_batch() -> dict[str, Any]:
    """A discriminator with spectral norm and the spread of the batch, mixed on purpose."""
    model = nn.Sequential(
        spectral_norm(nn.Linear(64, 128)), nn.LeakyReLU(0.2), BatchSpread(), spectral_norm(nn.Linear(129, 64)),
        nn.LeakyReLU(0.2), nn.Linear(64, 1),
    )  # fmt: skip
    return setup(model, split(*real_and_fake()), nn.BCEWithLogitsLoss())


class Doubtful(nn.Module):
    """Dropout that stays on, to draw from what the network believes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(64, 96), nn.Linear(96, 96), nn.Linear(96, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Drop in every mode."""
        hidden = F.dropout(F.relu(self.first(x)), 0.2, training=True)
        return self.head(F.dropout(F.relu(self.second(hidden)), 0.2, training=True))


@healthy(epochs=6, accuracy=0.85)
def monte_carlo_dropout() -> dict[str, Any]:
    """Noise in eval mode, on purpose: the spread of many answers is the doubt."""
    return setup(Doubtful(), split(*digit_rows()), nn.CrossEntropyLoss())


class Prototypes(nn.Module):
    """Each class is a point; the nearest wins."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.points = mlp(64, 16), nn.Parameter(torch.randn(10, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return minus the squared distance to every point: never above zero."""
        return -torch.cdist(self.body(x), self.points).square()


@healthy(epochs=6, accuracy=0.9)
def nearest_prototype() -> dict[str, Any]:
    """Logits that cannot be positive, and need not be."""
    return setup(Prototypes(), split(*digit_rows()), nn.CrossEntropyLoss())


class Latents(nn.Module):
    """A few learnt questions that look at the image, row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.places = nn.Linear(8, 32), nn.Parameter(0.1 * torch.randn(8, 32))
        self.questions = nn.Parameter(0.5 * torch.randn(4, 32))
        self.look = nn.MultiheadAttention(32, 4, batch_first=True)
        self.head = nn.Sequential(nn.LayerNorm(128), nn.Linear(128, 64), nn.GELU(), nn.Linear(64, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Ask, and answer from what was seen."""
        seen = self.rows(x.flatten(1, 2)) + self.places
        asked, _ = self.look(self.questions.expand(len(x), -1, -1), seen, seen)
        return self.head(asked.flatten(1))


@healthy(epochs=8, accuracy=0.85)
def learnt_queries() -> dict[str, Any]:
    """Cross-attention from parameters to the input."""
    return setup(Latents(), split(*digit_images()), nn.CrossEntropyLoss())
