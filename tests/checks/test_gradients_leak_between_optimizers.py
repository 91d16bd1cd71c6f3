"""One network's gradients in another's step."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tests.checks.networks import LATENT, WIDTH, actor_critic, alarms, bce, critic_net, gan, generator_net, loader
from tests.examples import failing_example

CHECK = "gradients-leak-between-optimizers"


@failing_example(CHECK, where="optimizer")
def generator_gets_the_critics_gradient() -> dict[str, Any]:
    """Both are cleared at the beginning only, and the fake rows are not detached."""
    return gan(zero_first=True, attached=True)  # fixed: return gan(attached=True)


@failing_example(CHECK, where="critic_optimizer")
def critic_learns_to_please() -> dict[str, Any]:
    """The actor's loss leaves gradients in the critic, which are not cleared before its own."""
    return actor_critic(zero_critic=False)


@failing_example(CHECK, where="opt_d")
def generator_first() -> dict[str, Any]:
    """All gradients are cleared at once, and the generator is trained first."""
    G, D = generator_net(), critic_net()
    opt_g, opt_d = torch.optim.RMSprop(G.parameters(), 1e-3), torch.optim.RMSprop(D.parameters(), 1e-3)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        x = batch[0]
        opt_g.zero_grad()
        opt_d.zero_grad()
        fake = model(torch.randn(len(x), LATENT))
        (-D(fake).mean()).backward()
        opt_g.step()
        loss = D(fake.detach()).mean() - D(x).mean()
        loss.backward()
        opt_d.step()
        return loss

    return {"model": G, "loader": loader(), "optimizer": opt_g, "train_step": step}


def attached_but_cleared() -> dict[str, Any]:
    """The gradient that comes to the generator is cleared before its own."""
    return gan(attached=True)


def one_loss_two_optimizers() -> dict[str, Any]:
    """An encoder and a decoder with an optimizer each."""
    encoder, decoder = nn.Linear(WIDTH, 3), nn.Linear(3, WIDTH)
    first, second = torch.optim.Adam(encoder.parameters(), 1e-2), torch.optim.SGD(decoder.parameters(), 1e-2)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        first.zero_grad()
        second.zero_grad()
        loss = nn.functional.mse_loss(decoder(encoder(batch[0])), batch[0])
        loss.backward()
        first.step()
        second.step()
        return loss

    return {"model": encoder, "loader": loader(), "optimizer": first, "train_step": step}


def real_and_fake_apart() -> dict[str, Any]:
    """The critic's gradients come from two backward passes before one step; Wasserstein with a gradient penalty."""
    G, D = generator_net(), critic_net()
    opt_g, opt_d = torch.optim.Adam(G.parameters(), 1e-3), torch.optim.Adam(D.parameters(), 1e-3)

    def penalty(x: torch.Tensor, fake: torch.Tensor) -> torch.Tensor:
        mixed = (x + torch.rand(len(x), 1) * (fake - x)).requires_grad_()
        (slope,) = torch.autograd.grad(D(mixed).sum(), mixed, create_graph=True)
        return (slope.norm(dim=1) - 1).square().mean()

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        x = batch[0]
        D.zero_grad()
        fake = G(torch.randn(len(x), LATENT)).detach()
        D(fake).mean().backward()
        (-D(x).mean()).backward()
        (10 * penalty(x, fake)).backward()
        opt_d.step()
        G.zero_grad()
        loss = -D(G(torch.randn(len(x), LATENT))).mean()
        loss.backward()
        opt_g.step()
        return loss

    return {"model": G, "loader": loader(), "optimizer": opt_g, "train_step": step}


def trunk_of_two_tasks() -> dict[str, Any]:
    """A trunk that the second optimizer holds, and that both losses are meant to train."""
    trunk, one, two = nn.Linear(WIDTH, 8), nn.Linear(8, 1), nn.Linear(8, 1)
    first = torch.optim.Adam(one.parameters(), 1e-3)
    second = torch.optim.Adam([*trunk.parameters(), *two.parameters()], 1e-3)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        first.zero_grad()
        second.zero_grad()
        hidden = trunk(batch[0]).relu()
        bce(one(hidden), (batch[0][:, :1] > 0).float()).backward(retain_graph=True)
        first.step()
        loss = nn.functional.mse_loss(two(hidden), batch[0][:, 1:2])
        loss.backward()
        second.step()
        return loss

    return {"model": trunk, "loader": loader(), "optimizer": second, "train_step": step}


@pytest.mark.parametrize(
    "make",
    [gan, actor_critic, attached_but_cleared, one_loss_two_optimizers, real_and_fake_apart, trunk_of_two_tasks],
    ids=lambda make: make.__name__,
)
def test_silent(make: Any) -> None:
    assert not alarms(CHECK, **make())
    assert not alarms("accumulated-gradients", **make())
