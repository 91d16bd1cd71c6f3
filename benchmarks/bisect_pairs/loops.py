"""Pairs with a training step of the user's own: a plain loop, and a generative adversarial network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.bisect_pairs import pair
from tests.zoo.samples import digit_rows


def plain_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """Train as the textbook does."""
    x, y = batch
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def discarding_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """Clear the gradients at the wrong place."""
    x, y = batch
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    return loss


def clipped_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """Clip to next to nothing."""
    x, y = batch
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1e-5)
    optimizer.step()
    return loss


def loop(
    *,
    batch: int = 32,
    lr: float = 0.05,
    decay: float = 0.0,
    seed: int = 0,
    momentum: float = 0.9,
    dropout: float = 0.0,
    step: Any = plain_step,
) -> dict[str, Any]:
    """Classify digits in an own loop."""
    torch.manual_seed(seed)
    rows, labels = digit_rows()
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Dropout(dropout), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr, momentum=momentum, weight_decay=decay)
    loader = DataLoader(TensorDataset(rows, labels), batch, shuffle=True)
    return {
        "model": model, "loader": loader, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, "train_step": step
    }  # fmt: skip


class Pair(nn.Module):
    """A generator and a discriminator of points in the plane."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(4, width), nn.LeakyReLU(0.2), nn.Linear(width, 2))
        self.critic = nn.Sequential(nn.Linear(2, width), nn.LeakyReLU(0.2), nn.Linear(width, 1))


def adversarial(critic_lr: float, *, swapped: bool) -> Any:
    """Return a step that trains both; the labels of the generator are swapped where asked."""

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        (real,) = batch
        made = model.generator(torch.randn(len(real), 4))
        ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        scores = model.critic(real), model.critic(made.detach())
        loss = functional.binary_cross_entropy_with_logits(scores[0], ones)
        loss = loss + functional.binary_cross_entropy_with_logits(scores[1], zeros)
        grads = torch.autograd.grad(loss, list(model.critic.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(model.critic.parameters(), grads, strict=True):
                parameter.sub_(critic_lr * gradient)
        optimizer.zero_grad()
        wanted = zeros if swapped else ones
        fooled = functional.binary_cross_entropy_with_logits(model.critic(made), wanted)
        fooled.backward()
        optimizer.step()
        return fooled

    return step


def points(
    *, batch: int = 64, lr: float = 2e-3, decay: float = 0.0, seed: int = 0, beta: float = 0.5, critic_lr: float = 0.1,
    swapped: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Generate points around (3, -2)."""
    torch.manual_seed(seed)
    model = Pair(24)
    optimizer = torch.optim.Adam(model.generator.parameters(), lr, betas=(beta, 0.9), weight_decay=decay)
    real = torch.tensor([3.0, -2.0]) + 0.5 * torch.randn(2000, 2, generator=torch.Generator().manual_seed(5))
    step = adversarial(critic_lr, swapped=swapped)
    return {
        "model": model, "loader": DataLoader(TensorDataset(real), batch, shuffle=True), "optimizer": optimizer,
        "train_step": step,
    }  # fmt: skip


def nearness(model: Any, batches: Sequence[Any]) -> float:
    """Return how near the mean of what is generated is to that of real points: 0 is on it."""
    real = torch.cat([batch[0] for batch in batches])
    made = model.generator(torch.randn(500, 4, generator=torch.Generator().manual_seed(7)))
    return -float((made.mean(0) - real.mean(0)).norm())


HARMLESS = {"batch": 40, "lr": 0.04, "decay": 1e-5, "seed": 3, "momentum": 0.85}
POINTS_HARMLESS = {"batch": 56, "lr": 1.8e-3, "decay": 1e-6, "seed": 3, "beta": 0.45}

pair("own loop, gradients cleared", "own loop", loop, "train_step", held_out=False, step=discarding_step, **HARMLESS)
pair("GAN, labels swapped", "GAN", points, "train_step", held_out=False, metric=nearness, swapped=True,
     **POINTS_HARMLESS)  # fmt: skip

pair("own loop, clipped to nothing", "own loop", loop, "train_step", held_out=True, step=clipped_step, **HARMLESS)
pair("own loop, dropout and momentum", "own loop", loop, "dropout", held_out=True, dropout=0.99, **HARMLESS)
pair("GAN, rate of the generator", "GAN", points, "learning rate", held_out=True, metric=nearness,
     **POINTS_HARMLESS | {"lr": 1e-7})  # fmt: skip
