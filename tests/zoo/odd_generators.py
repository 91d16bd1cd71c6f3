"""Healthy models that make data or judge it, and the parts of others that faults are put into."""

from __future__ import annotations

import math
from typing import Any

import torch
from sklearn.datasets import make_moons
from torch import nn
from torch.nn import functional as F

from tests.examples import healthy
from tests.zoo.samples import digit_rows, setup, split


def moons(count: int = 1200) -> torch.Tensor:
    """Return points on two half moons, centered and of unit size."""
    points = torch.tensor(make_moons(count, noise=0.06, random_state=0)[0], dtype=torch.float32)
    return (points - points.mean(0)) / points.std(0)


class Coupling(nn.Module):
    """Scales and shifts one half of the columns by what the other half says."""

    def __init__(self, flipped: bool) -> None:
        super().__init__()
        self.flipped, self.net = flipped, nn.Sequential(nn.Linear(1, 48), nn.Tanh(), nn.Linear(48, 2))

    def forward(self, x: torch.Tensor, log_det: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the changed points and the logarithm of the volume so far."""
        kept, moved = x.flip(1).chunk(2, 1) if self.flipped else x.chunk(2, 1)
        scale, shift = self.net(kept).chunk(2, 1)
        scale = torch.tanh(scale) * 2
        moved = moved * scale.exp() + shift
        out = torch.cat([moved, kept] if self.flipped else [kept, moved], 1)
        return out, log_det + scale.sum(1)


class RealNvp(nn.Module):
    """Six couplings into a normal distribution."""

    def __init__(self) -> None:
        super().__init__()
        self.couplings = nn.ModuleList(Coupling(bool(k % 2)) for k in range(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logarithm of each point's likelihood."""
        log_det = x.new_zeros(len(x))
        for coupling in self.couplings:
            x, log_det = coupling(x, log_det)
        return log_det - 0.5 * (x.square() + math.log(2 * math.pi)).sum(1)


class Denoiser(nn.Module):
    """Foretells the noise of a noisy point from the point and the time."""

    def __init__(self, width: int = 96) -> None:
        super().__init__()
        self.register_buffer("rates", torch.exp(torch.linspace(0, 5, 8)))
        self.register_buffer("kept", torch.cos(torch.linspace(0.05, 1.5, 50)).square())
        self.time = nn.Sequential(nn.Linear(16, width), nn.SiLU())
        self.first, self.second, self.last = nn.Linear(2, width), nn.Linear(width, width), nn.Linear(width, 2)

    def forward(self, x_t: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """Return the noise."""
        angles = t[:, None] / 50 * self.rates
        time = self.time(torch.cat([angles.sin(), angles.cos()], 1))
        hidden = F.silu(self.first(x_t) + time)
        return self.last(F.silu(self.second(hidden) + hidden))


def diffusion_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Draw a time and a noise for every sample, and compare."""
    (x,) = batch
    t = torch.randint(0, 50, (len(x),))
    noise, kept = torch.randn_like(x), model.kept[t, None]
    return loss_fn(model(kept.sqrt() * x + (1 - kept).sqrt() * noise, t), noise)


def diffusion_of_points() -> dict[str, Any]:
    """Random inputs and random targets, anew in every call."""
    return setup(Denoiser(), split(moons()), nn.MSELoss(), lr=2e-3, compute_loss=diffusion_loss)


def penalized(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Wasserstein distance to a standing noise, with a penalty on the slope between."""
    (real,) = batch
    fake = torch.randn_like(real) * 0.3 + torch.tensor([2.0, -1.0])
    between = torch.lerp(fake, real, torch.rand(len(real), 1)).requires_grad_()
    (slope,) = torch.autograd.grad(model(between).sum(), between, create_graph=True)
    return model(fake).mean() - model(real).mean() + 10 * (slope.norm(dim=1) - 1).square().mean()


@healthy(epochs=15, good=lambda first, last: last < -1.0)
def critic_with_gradient_penalty() -> dict[str, Any]:
    """A second derivative in the loss, and a last bias that no loss of differences moves."""
    model = nn.Sequential(nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.5, 0.9))
    return setup(model, split(moons()), compute_loss=penalized, optimizer=optimizer)


class MaskedLinear(nn.Linear):
    """A linear layer of which a standing mask keeps part."""

    def __init__(self, mask: torch.Tensor) -> None:
        super().__init__(mask.shape[1], mask.shape[0])
        self.register_buffer("mask", mask.float())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply what is kept."""
        return F.linear(x, self.weight * self.mask, self.bias)


class Made(nn.Module):
    """Foretells each pixel from those before it, all at once."""

    def __init__(self, width: int = 160, strict: bool = True) -> None:
        super().__init__()
        pixel, unit = torch.arange(64), torch.arange(width) % 63
        self.hidden = MaskedLinear(unit[:, None] >= pixel)
        self.out = MaskedLinear(pixel[:, None] > unit if strict else pixel[:, None] >= unit)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a logit for each pixel; the first one sees nothing."""
        return self.out(self.hidden(x).relu())


@healthy(epochs=25, good=lambda first, last: last < 0.7 * first)
def pixels_one_after_another() -> dict[str, Any]:
    """The target is the input itself, seen through masks."""
    ink = (digit_rows()[0] > 0.4).float()
    return setup(Made(), split(ink, ink), nn.BCEWithLogitsLoss())
