"""A second optimizer that does nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tests.checks.networks import WIDTH, actor_critic, alarms, classifier, gan, loader
from tests.examples import failing_example

CHECK = "optimizer-without-effect"


@failing_example(CHECK, where="opt_d")
def critic_never_steps() -> dict[str, Any]:
    """The discriminator's step is forgotten."""
    return gan(step_d=False)  # fixed: return gan()


@failing_example(CHECK, where="critic_optimizer")
def optimizer_of_another_critic() -> dict[str, Any]:
    """The optimizer was made from a critic that is not used."""
    other = nn.Sequential(nn.Linear(WIDTH + 2, 32), nn.ReLU(), nn.Linear(32, 1))
    return actor_critic(critic=other)


@failing_example(CHECK, where="head_optimizer")
def head_exchanged_after() -> dict[str, Any]:
    """The projection head is exchanged when its optimizer is already made."""
    body, head = nn.Linear(WIDTH, 16), nn.Linear(16, 2)
    optimizer, head_optimizer = torch.optim.SGD(body.parameters(), 0.1), torch.optim.SGD(head.parameters(), 0.1)
    head = nn.Sequential(nn.ReLU(), nn.Linear(16, 2))

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        head_optimizer.zero_grad()
        loss = nn.functional.cross_entropy(head(model(batch[0])), batch[1])
        loss.backward()
        optimizer.step()
        head_optimizer.step()
        return loss

    return {"model": body, "loader": loader(targets=True), "optimizer": optimizer, "train_step": step}


def delayed() -> dict[str, Any]:
    """The actor is updated every third call."""
    return actor_critic(every=3)


def lbfgs_beside_adam() -> dict[str, Any]:
    """Two optimizers, one of which calls a closure."""
    model, scale = classifier(), nn.Parameter(torch.ones(()))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    second = torch.optim.LBFGS([scale], lr=0.1, max_iter=3)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        def closure() -> torch.Tensor:
            second.zero_grad()
            loss = nn.functional.cross_entropy(scale * model(batch[0]), batch[1])
            loss.backward()
            return loss

        optimizer.zero_grad()
        loss = closure()
        optimizer.step()
        second.step(closure)
        return loss

    return {"model": model, "loader": loader(targets=True), "optimizer": optimizer, "train_step": step}


@pytest.mark.parametrize("make", [gan, actor_critic, delayed, lbfgs_beside_adam], ids=lambda make: make.__name__)
def test_silent(make: Any) -> None:
    assert not alarms(CHECK, **make())
