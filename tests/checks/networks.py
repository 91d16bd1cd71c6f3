"""Training steps with several networks and optimizers, for tests and failing examples."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

LATENT, WIDTH = 4, 8
bce = nn.functional.binary_cross_entropy_with_logits


def loader(targets: bool = False, size: int = 128, batch_size: int = 16) -> DataLoader[Any]:
    """Return batches of correlated rows, with classes if wanted."""
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(size, 3, generator=generator) @ torch.randn(3, WIDTH, generator=generator)
    data = (rows, (rows[:, 0] > 0).long()) if targets else (rows,)
    return DataLoader(TensorDataset(*data), batch_size)


def generator_net() -> nn.Sequential:
    """Map noise to rows."""
    return nn.Sequential(nn.Linear(LATENT, 24), nn.ReLU(), nn.Linear(24, WIDTH))


def critic_net() -> nn.Sequential:
    """Judge rows."""
    return nn.Sequential(nn.Linear(WIDTH, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))


class Gan:
    """A GAN's training step as a class, whose parts a subclass can get wrong."""

    def __init__(self, **options: Any) -> None:
        self.D = critic_net()
        self.options = options
        self.opt_d = torch.optim.Adam(self.D.parameters(), 2e-3, betas=(0.5, 0.999))

    def __call__(self, model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        """Train the critic, then the generator."""
        x, options = batch[0], self.options
        if options.get("zero_first"):
            optimizer.zero_grad()
        if options.get("zero_d", True):
            self.opt_d.zero_grad()
        fake = model(torch.randn(len(x), LATENT))
        shown = fake if options.get("attached") else fake.detach()
        real, made = self.D(x), self.D(shown)
        (bce(real, torch.ones_like(real)) + bce(made, torch.zeros_like(made))).backward(
            retain_graph=bool(options.get("attached"))
        )
        if options.get("step_d", True):
            self.opt_d.step()
        if not options.get("zero_first"):
            optimizer.zero_grad()
        judged = self.D(fake)
        loss = bce(judged, torch.ones_like(judged))
        loss.backward()
        optimizer.step()
        return loss


def gan(**options: Any) -> dict[str, Any]:
    """Return a GAN, right but for the options."""
    model = generator_net()
    optimizer = torch.optim.Adam(model.parameters(), 2e-3, betas=(0.5, 0.999))
    return {"model": model, "loader": loader(), "optimizer": optimizer, "train_step": Gan(**options)}


class ActorCritic:
    """Deterministic policy gradients on a made-up problem: the critic learns rewards, the actor climbs it."""

    def __init__(self, zero_critic: bool = True, every: int = 1, critic: nn.Module | None = None) -> None:
        self.critic = nn.Sequential(nn.Linear(WIDTH + 2, 32), nn.ReLU(), nn.Linear(32, 1))
        self.critic_optimizer = torch.optim.Adam((critic or self.critic).parameters(), 1e-3)
        self.zero_critic, self.every, self.calls = zero_critic, every, 0

    def __call__(self, actor: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        """Update the actor through the critic, then the critic."""
        state = batch[0]
        self.calls += 1
        if not self.zero_critic:
            self.critic_optimizer.zero_grad()
        if self.calls % self.every == 0:
            optimizer.zero_grad()
            (-self.critic(torch.cat([state, actor(state)], 1)).mean()).backward()
            optimizer.step()
        if self.zero_critic:
            self.critic_optimizer.zero_grad()
        action = actor(state).detach() + 0.1 * torch.randn(len(state), 2)
        reward = -(action - state[:, :2]).square().sum(1, keepdim=True)
        loss = nn.functional.mse_loss(self.critic(torch.cat([state, action], 1)), reward)
        loss.backward()
        self.critic_optimizer.step()
        return loss


def actor_critic(**options: Any) -> dict[str, Any]:
    """Return an actor with its critic."""
    actor = nn.Sequential(nn.Linear(WIDTH, 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(actor.parameters(), 1e-3)
    return {"model": actor, "loader": loader(), "optimizer": optimizer, "train_step": ActorCritic(**options)}


def teacher_step(average: Callable[[Any, Any], None], teacher: nn.Module, *, graded: bool = False) -> Any:
    """Return a step that teaches a student, and afterwards averages it into a teacher."""

    def step(student: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        x, y = batch
        optimizer.zero_grad()
        said = student(x)
        with torch.set_grad_enabled(graded):
            taught = teacher(x)
        loss = nn.functional.cross_entropy(said, y) + 0.1 * nn.functional.mse_loss(said, taught)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            average(teacher, student)
        return loss

    return step


def blend(keep: float) -> Callable[[Any, Any], None]:
    """Return a moving average with this decay."""

    def average(slow: nn.Module, fast: nn.Module) -> None:
        for a, b in zip(slow.parameters(), fast.parameters(), strict=True):
            a.mul_(keep).add_(b, alpha=1 - keep)

    return average


def copied(slow: nn.Module, fast: nn.Module) -> None:
    """Copy all weights."""
    slow.load_state_dict(fast.state_dict())


def classifier() -> nn.Sequential:
    """Return a small classifier."""
    return nn.Sequential(nn.Linear(WIDTH, 16), nn.ReLU(), nn.Linear(16, 2))


def taught(average: Callable[[Any, Any], None], *, trained: bool = False, model: Any = None) -> dict[str, Any]:
    """Return a student with a teacher; `trained` puts the teacher into the optimizer."""
    student = model if model is not None else classifier()
    teacher = copy.deepcopy(student)
    both = [*student.parameters(), *teacher.parameters()] if trained else list(student.parameters())
    optimizer = torch.optim.AdamW(both, 1e-2)
    return {
        "model": student,
        "loader": loader(targets=True),
        "optimizer": optimizer,
        "train_step": teacher_step(average, teacher, graded=trained),
    }


def found(check: str, **setup: Any) -> list[nbdebug.Finding]:
    """Run one check and return its findings; it must not crash."""
    report = nbdebug.diagnose(**setup, checks=[check], progress=False)
    assert report.result(check).status in ("found", "clean"), report.result(check)
    return list(report.findings)


def alarms(check: str, **setup: Any) -> list[nbdebug.Finding]:
    """Run one check and return its alarms; it may also abstain."""
    report = nbdebug.diagnose(**setup, checks=[check], progress=False)
    assert report.result(check).status != "crashed", report.result(check)
    return report.alarms
