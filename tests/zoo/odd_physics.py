"""Healthy set-ups of those who compute: equations, energies, spectra."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.examples import healthy
from tests.zoo.samples import seeded, setup, split


class Solution(nn.Module):
    """A function of time that begins where it has to."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )

    def forward(self, t: torch.Tensor) -> torch.Tensor:
        """Return u(t) with u(0) = 1 and u'(0) = 0."""
        return 1 + t.square() * self.net(t)


def residual_of_the_equation(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """How far u'' + u is from zero."""
    t = batch[0].clone().requires_grad_()
    u = model(t)
    (du,) = torch.autograd.grad(u.sum(), t, create_graph=True)
    (ddu,) = torch.autograd.grad(du.sum(), t, create_graph=True)
    return (ddu + u).square().mean()


@healthy(epochs=40, good=lambda first, last: last < 0.01 * first)
def oscillator_from_its_equation() -> dict[str, Any]:
    """A physics-informed network in float64: no target at all, two derivatives in the loss."""
    t = torch.rand(400, 1, dtype=torch.float64, generator=seeded(13)) * 3
    return setup(Solution().double(), split(t, batch_size=40), compute_loss=residual_of_the_equation)


class Hamiltonian(nn.Module):
    """An energy whose slope says how things move."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.energy = nn.Sequential(
            nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        """Return the movement, also where nobody asked for gradients."""
        with torch.enable_grad():
            state = state.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self.energy(state).sum(), state, create_graph=True)
        return torch.stack([slope[:, 1], -slope[:, 0]], 1)


@healthy(epochs=20, good=lambda first, last: last < 0.1 * first)
def movement_from_an_energy() -> dict[str, Any]:
    """A gradient inside forward; the last bias of the energy moves nothing."""
    state = torch.rand(800, 2, generator=seeded(14)) * 4 - 2
    moves = torch.stack([state[:, 1], -torch.sin(state[:, 0])], 1)
    return setup(Hamiltonian(), split(state, moves), nn.MSELoss())


class SpectralLayer(nn.Module):
    """Complex weights on the lowest waves, beside a plain way."""

    def __init__(self, width: int, waves: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width, waves, dtype=torch.cfloat) / width)
        self.beside = nn.Conv1d(width, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Mix the channels wave by wave."""
        spectrum = torch.fft.rfft(x, norm="ortho")
        low = torch.einsum("bik,iok->bok", spectrum[..., : self.weight.shape[-1]], self.weight)
        return torch.fft.irfft(low, n=x.shape[-1], norm="ortho") + self.beside(x)


@healthy(epochs=15, good=lambda first, last: last < 0.15 * first)
def operator_of_waves() -> dict[str, Any]:
    """A Fourier neural operator that learns to smooth and square a curve."""
    curves = F.interpolate(torch.randn(500, 1, 8, generator=seeded(15)), 32, mode="linear")
    smooth = F.avg_pool1d(F.pad(curves, (3, 3), mode="circular"), 7, 1).square()
    model = nn.Sequential(
        nn.Conv1d(1, 16, 1), SpectralLayer(16, 8), nn.GELU(), SpectralLayer(16, 8), nn.GELU(), nn.Conv1d(16, 1, 1)
    )
    return setup(model, split(curves, smooth), nn.MSELoss(), lr=4e-3)
