"""Networks that a step freezes for good."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tests.checks.networks import LATENT, WIDTH, alarms, bce, classifier, critic_net, gan, generator_net, loader
from tests.examples import failing_example

CHECK = "requires-grad-left-off"


def freezing(*, thaw: bool) -> dict[str, Any]:
    """Return a GAN whose critic is frozen while the generator trains."""
    G, D = generator_net(), critic_net()
    opt_g, opt_d = torch.optim.Adam(G.parameters(), 1e-3), torch.optim.Adam(D.parameters(), 1e-3)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        if thaw:
            D.requires_grad_(True)
        x, fake = batch[0], model(torch.randn(len(batch[0]), LATENT))
        opt_d.zero_grad()
        loss = bce(D(x), torch.ones(len(x), 1)) + bce(D(fake.detach()), torch.zeros(len(x), 1))
        if loss.requires_grad:
            loss.backward()
            opt_d.step()
        D.requires_grad_(False)
        optimizer.zero_grad()
        loss = bce(D(fake), torch.ones(len(x), 1))
        loss.backward()
        optimizer.step()
        return loss

    return {"model": G, "loader": loader(), "optimizer": opt_g, "train_step": step}


@failing_example(CHECK, where="D")
def critic_never_unfrozen() -> dict[str, Any]:
    """It learns from one batch."""
    return freezing(thaw=False)  # fixed: return freezing(thaw=True)


@failing_example(CHECK, where="model")
def body_frozen_by_a_helper() -> dict[str, Any]:
    """A helper for saliency maps leaves the model's body frozen."""
    model = nn.Sequential(nn.Linear(WIDTH, 16), nn.ReLU(), nn.Linear(16, 2))

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        for parameter in model[0].parameters():
            parameter.requires_grad = False
        return loss

    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    return {"model": model, "loader": loader(targets=True), "optimizer": optimizer, "train_step": step}


@failing_example(CHECK, where="encoder")
def encoder_of_a_pair() -> dict[str, Any]:
    """An adversary on codes: its turn freezes the encoder, and nothing undoes it."""
    encoder, decoder = nn.Linear(WIDTH, 3), nn.Linear(3, WIDTH)
    second = torch.optim.Adam(encoder.parameters(), 1e-2)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        second.zero_grad()
        loss = nn.functional.mse_loss(model(encoder(batch[0])), batch[0])
        loss.backward()
        optimizer.step()
        second.step()
        encoder.requires_grad_(False)
        return loss

    return {
        "model": decoder,
        "loader": loader(),
        "optimizer": torch.optim.Adam(decoder.parameters()),
        "train_step": step,
    }


def frozen_from_the_start() -> dict[str, Any]:
    """A frozen body under a new head, frozen again in each call."""
    model = classifier()
    model[0].requires_grad_(False)

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        model[0].requires_grad_(False)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss

    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    return {"model": model, "loader": loader(targets=True), "optimizer": optimizer, "train_step": step}


def unfrozen() -> dict[str, Any]:
    """As it should be."""
    return freezing(thaw=True)


@pytest.mark.parametrize("make", [gan, unfrozen, frozen_from_the_start], ids=lambda make: make.__name__)
def test_silent(make: Any) -> None:
    assert not alarms(CHECK, **make())
