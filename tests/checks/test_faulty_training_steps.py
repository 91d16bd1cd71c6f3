"""Training steps with one mistake, of other kinds than the failing examples of the checks."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import nbdebug
from tests.checks.networks import LATENT, WIDTH, bce, classifier, critic_net, generator_net, loader
from tests.checks.test_sound_training_steps import CHECKS, made

FAULTY: list[tuple[str, Callable[[], dict[str, Any]]]] = []


def faulty(check: str) -> Callable[[Callable[[], dict[str, Any]]], Callable[[], dict[str, Any]]]:
    """Register a set-up with the check that names its mistake."""

    def register(make: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
        FAULTY.append((check, make))
        return make

    return register


@faulty("parameters-missing-from-optimizer")
def projection_head_forgotten() -> dict[str, Any]:
    """Contrastive learning with a head beside the encoder."""
    encoder, head = nn.Linear(WIDTH, 16), nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        one, two = (F.normalize(head(encoder(batch[0] + 0.1 * torch.randn_like(batch[0]))), dim=1) for _ in range(2))
        loss = F.cross_entropy(one @ two.T / 0.1, torch.arange(len(one)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return made(step, encoder)


@faulty("parameters-missing-from-optimizer")
def temperature_is_not_trained() -> dict[str, Any]:
    """A learned temperature in a bare step."""
    encoder, log_scale = nn.Linear(WIDTH, 8), nn.Parameter(torch.tensor(1.0))

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        codes = F.normalize(model(batch[0]), dim=1)
        loss = F.cross_entropy(codes @ codes.roll(1, 1).T * log_scale.exp(), torch.arange(len(codes)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return made(step, encoder)


@faulty("optimizer-without-effect")
def discriminator_optimizer_of_the_generator() -> dict[str, Any]:
    """The discriminator's optimizer got the discriminator of an earlier run."""
    G, old, D = generator_net(), critic_net(), critic_net()
    optimizers = {"g": torch.optim.Adam(G.parameters(), 1e-3), "d": torch.optim.Adam(old.parameters(), 1e-3)}

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        fake = G(torch.randn(len(batch[0]), LATENT))
        real, seen = D(batch[0]), D(fake.detach())
        optimizers["d"].zero_grad()
        (bce(real, torch.ones_like(real)) + bce(seen, torch.zeros_like(seen))).backward()
        optimizers["d"].step()
        optimizers["g"].zero_grad()
        judged = D(fake)
        loss = bce(judged, torch.ones_like(judged))
        loss.backward()
        optimizers["g"].step()
        return loss

    return {"model": G, "loader": loader(), "train_step": step}


@faulty("accumulated-gradients")
def second_optimizer_never_cleared() -> dict[str, Any]:
    """Only one of two optimizers clears its gradients."""
    encoder, decoder = nn.Linear(WIDTH, 3), nn.Linear(3, WIDTH)
    first, second = torch.optim.Adam(encoder.parameters(), 1e-3), torch.optim.Adam(decoder.parameters(), 1e-3)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        first.zero_grad()
        loss = F.mse_loss(decoder(encoder(batch[0])), batch[0])
        loss.backward()
        first.step()
        second.step()
        return loss

    return {"model": encoder, "loader": loader(), "optimizer": first, "train_step": step}


class Trainer:
    """A trainer whose actor's loss reaches the critic."""

    def __init__(self) -> None:
        self.actor = nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, 2))
        self.value = nn.Sequential(nn.Linear(WIDTH + 2, 16), nn.ReLU(), nn.Linear(16, 1))
        self.actor_optim = torch.optim.Adam(self.actor.parameters(), 1e-3)
        self.value_optim = torch.optim.Adam(self.value.parameters(), 1e-3)

    def update(self, model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        """Clear everything once, then the actor, then the critic."""
        state = batch[0]
        for one in (self.actor_optim, self.value_optim):
            one.zero_grad()
        (-self.value(torch.cat([state, self.actor(state)], 1))).mean().backward()
        self.actor_optim.step()
        action = torch.randn(len(state), 2)
        loss = F.mse_loss(self.value(torch.cat([state, action], 1)), -action.square().sum(1, keepdim=True))
        loss.backward()
        self.value_optim.step()
        return loss


@faulty("gradients-leak-between-optimizers")
def critic_of_a_trainer() -> dict[str, Any]:
    """Everything is an attribute."""
    trainer = Trainer()
    return {"model": trainer.actor, "loader": loader(), "train_step": trainer.update}


@faulty("untrained-parameters")
def tokenizer_by_item() -> dict[str, Any]:
    """An encoder whose codes become Python integers."""
    encoder, table, head = nn.Linear(WIDTH, 5), nn.Embedding(5, 8), nn.Linear(8, WIDTH)
    optimizer = torch.optim.Adam([p for part in (encoder, table, head) for p in part.parameters()], 1e-3)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        codes = torch.tensor([int(row.argmax()) for row in encoder(batch[0])])
        loss = F.mse_loss(head(table(codes)), batch[0])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return made(step, encoder, optimizer)


@faulty("untrained-parameters")
def world_model_detached() -> dict[str, Any]:
    """The encoder is called under no_grad, and is in the optimizer."""
    encoder, dynamics = nn.Sequential(nn.Linear(WIDTH, 16), nn.Tanh()), nn.Linear(16, WIDTH)
    optimizer = torch.optim.Adam(itertools.chain(encoder.parameters(), dynamics.parameters()), 1e-3)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        with torch.no_grad():
            code = encoder(batch[0])
        loss = F.mse_loss(dynamics(code), batch[0].roll(1, 0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return made(step, dynamics, optimizer)


@faulty("clipping-without-effect")
def clipping_at_the_end() -> dict[str, Any]:
    """The gradients of two networks are clipped when both have stepped."""
    body, head = nn.Linear(WIDTH, 8), nn.Linear(8, 2)
    both = torch.optim.SGD([*body.parameters(), *head.parameters()], 0.1)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        loss = F.cross_entropy(head(body(batch[0]).relu()), batch[1])
        both.zero_grad()
        loss.backward()
        both.step()
        for part in (body, head):
            torch.nn.utils.clip_grad_norm_(part.parameters(), 0.5)
        return loss

    return made(step, body, both, targets=True)


@faulty("moving-average-wrong")
def lerp_the_wrong_way() -> dict[str, Any]:
    """A target network by lerp, with the weights exchanged."""
    online = nn.Sequential(nn.Linear(WIDTH, 16), nn.ReLU(), nn.Linear(16, 2))
    target = copy.deepcopy(online)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        with torch.no_grad():
            wanted = batch[0][:, :1] + 0.9 * target(batch[0].roll(1, 0)).amax(1, keepdim=True)
        loss = F.mse_loss(model(batch[0])[:, :1], wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for a, b in zip(target.parameters(), model.parameters(), strict=True):
                a.lerp_(b, 0.995)
        return loss

    return made(step, online)


@faulty("missing-create-graph")
def score_matching_without_graph() -> dict[str, Any]:
    """A penalty on the gradient of an energy."""
    energy = nn.Sequential(nn.Linear(WIDTH, 16), nn.SiLU(), nn.Linear(16, 1))

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        x = batch[0].requires_grad_(True)
        value = model(x)
        gradient = torch.autograd.grad(value.sum(), x, retain_graph=True)[0]
        loss = F.softplus(value).mean() + 5.0 * gradient.square().sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return made(step, energy)


@faulty("accumulation-not-averaged")
def accumulation_without_division() -> dict[str, Any]:
    """Four micro-batches."""

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        for x, y in zip(batch[0].split(4), batch[1].split(4), strict=True):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
        optimizer.step()
        return loss

    return made(step, classifier(), targets=True)


@faulty("step-never-taken")
def step_before_backward() -> dict[str, Any]:
    """The optimizer steps first, in a step whose model has no forward of its own."""
    nets = nn.ModuleDict({"a": nn.Linear(WIDTH, 8), "b": nn.Linear(8, 2)})

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        loss = F.cross_entropy(model["b"](model["a"](batch[0]).relu()), batch[1])
        optimizer.zero_grad()
        optimizer.step()
        loss.backward()
        return loss

    return made(step, nets, targets=True)


@pytest.mark.parametrize(("check", "make"), FAULTY, ids=lambda part: getattr(part, "__name__", ""))
def test_found(check: str, make: Callable[[], dict[str, Any]]) -> None:
    """Its check raises an alarm, and no check crashes."""
    torch.manual_seed(0)
    report = nbdebug.diagnose(**make(), checks=CHECKS, progress=False)
    assert check in {finding.check for finding in report.alarms}, [str(result) for result in report.results]
    assert not [str(result) for result in report.results if result.status == "crashed"]
