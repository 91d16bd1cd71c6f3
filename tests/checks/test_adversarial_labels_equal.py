"""GANs whose two sides want the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tests.checks.networks import LATENT, WIDTH, actor_critic, alarms, bce, critic_net, gan, generator_net, loader
from tests.examples import failing_example

CHECK = "adversarial-labels-equal"
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def labeled(real: float, fake: float, wanted: float, *, loss: Loss = bce, attached: bool = False) -> dict[str, Any]:
    """Return a GAN with these labels."""
    G, D = generator_net(), critic_net()
    opt_g, opt_d = torch.optim.Adam(G.parameters(), 1e-3), torch.optim.Adam(D.parameters(), 1e-3)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        x, made = batch[0], model(torch.randn(len(batch[0]), LATENT))
        opt_d.zero_grad()
        said, seen = D(x), D(made if attached else made.detach())
        d_loss = loss(said, torch.full_like(said, real)) + loss(seen, torch.full_like(seen, fake))
        d_loss.backward(retain_graph=attached)
        opt_d.step()
        opt_g.zero_grad()
        seen = D(made)
        g_loss = loss(seen, torch.full_like(seen, wanted))
        g_loss.backward()
        opt_g.step()
        return g_loss

    return {"model": G, "loader": loader(), "optimizer": opt_g, "train_step": step}


@failing_example(CHECK, where="train_step")
def ones_for_both() -> dict[str, Any]:
    """Copied and not changed."""
    return labeled(1, 1, 1)  # fixed: return labeled(1, 0, 1)


@failing_example(CHECK, where="train_step")
def generator_wants_zeros() -> dict[str, Any]:
    """Least squares, and smoothed labels."""
    return labeled(0.9, 0, 0, loss=nn.functional.mse_loss)


@failing_example(CHECK, where="train_step")
def two_backward_passes() -> dict[str, Any]:
    """A critic of convolutions whose two losses go backward apart, with probabilities."""
    G = generator_net()
    D = nn.Sequential(nn.Unflatten(1, (1, WIDTH)), nn.Conv1d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(24, 1))
    opt_g, opt_d = torch.optim.Adam(G.parameters(), 1e-3), torch.optim.Adam(D.parameters(), 1e-3)
    criterion = nn.BCELoss()

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        label = torch.ones(len(batch[0]), 1)
        D.zero_grad()
        criterion(D(batch[0]).sigmoid(), label).backward()
        fake = G(torch.randn(len(batch[0]), LATENT))
        criterion(D(fake.detach()).sigmoid(), label).backward()
        opt_d.step()
        G.zero_grad()
        loss = criterion(D(fake).sigmoid(), label)
        loss.backward()
        opt_g.step()
        return loss

    return {"model": G, "loader": loader(), "optimizer": opt_g, "train_step": step}


def minimax() -> dict[str, Any]:
    """The generator maximizes the critic's loss."""
    G, D = generator_net(), critic_net()
    opt_g, opt_d = torch.optim.Adam(G.parameters(), 1e-3), torch.optim.Adam(D.parameters(), 1e-3)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        x, made = batch[0], G(torch.randn(len(batch[0]), LATENT))
        ones, zeros = torch.ones(len(x), 1), torch.zeros(len(x), 1)
        opt_d.zero_grad()
        (bce(D(x), ones) + bce(D(made.detach()), zeros)).backward()
        opt_d.step()
        opt_g.zero_grad()
        loss = -bce(D(made), zeros)
        loss.backward()
        opt_g.step()
        return loss

    return {"model": G, "loader": loader(), "optimizer": opt_g, "train_step": step}


@pytest.mark.parametrize(
    "make",
    [
        gan,
        lambda: labeled(1, 0, 1, attached=True),
        lambda: labeled(0, 1, 0),
        lambda: labeled(-1, 1, -1, loss=nn.functional.mse_loss),
        lambda: labeled(0.9, 0.1, 0.9),
        minimax,
        actor_critic,
    ],
    ids=["gan", "attached", "turned round", "least squares", "smoothed", "minimax", "actor-critic"],
)
def test_silent(make: Any) -> None:
    assert not alarms(CHECK, **make())
