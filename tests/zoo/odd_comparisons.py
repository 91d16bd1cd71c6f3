"""Healthy set-ups that learn from comparisons: pairs, orders, risks, teachers."""

from __future__ import annotations

import copy
import functools
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.examples import healthy
from tests.zoo.losses import mlp
from tests.zoo.samples import digit_rows, friedman, seeded, setup, split


def cox(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Whoever dies should have had the highest risk of all who were still alive."""
    x, time, seen = batch
    risk = model(x)[:, 0]
    order = time.argsort(descending=True)
    risk, seen = risk[order], seen[order]
    return -((risk - torch.logcumsumexp(risk, 0)) * seen).sum() / seen.sum().clamp(min=1)


@healthy(epochs=8, good=lambda first, last: last < first - 0.2)
def survival_by_partial_likelihood() -> dict[str, Any]:
    """A loss that compares the samples of a batch; a third of them are censored."""
    rows = torch.randn(800, 8, generator=seeded(4))
    hazard = torch.exp(1.2 * rows[:, 0] - 0.8 * rows[:, 1] * rows[:, 2])
    death = -torch.log(torch.rand(800, generator=seeded(5))) / hazard
    end = 2 * torch.rand(800, generator=seeded(6))
    data = split(rows, torch.minimum(death, end), (death <= end).float(), batch_size=64)
    return setup(mlp(8, 1), data, compute_loss=cox)


def ranking_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """The better one of two should score higher."""
    left, right, sign = batch
    return loss_fn(model(left)[:, 0], model(right)[:, 0], sign)


@healthy(epochs=8, good=lambda first, last: last < 0.5 * first)
def learning_to_rank() -> dict[str, Any]:
    """Pairs, and a target of -1 or 1 that says which is better."""
    rows, target = friedman(count=1200)
    left, right = rows[:600], rows[600:]
    sign = torch.sign(target[:600] - target[600:])[:, 0]
    data = split(left, right, sign, batch_size=32)
    return setup(mlp(10, 1), data, nn.MarginRankingLoss(margin=0.5), compute_loss=ranking_loss)


@functools.cache
def teacher() -> nn.Module:
    """Return a teacher that knows the digits."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = mlp(64, 10, width=128)
        learn = torch.optim.Adam(model.parameters(), lr=1e-2)
        rows, labels = digit_rows()
        for _ in range(60):
            learn.zero_grad()
            F.cross_entropy(model(rows), labels).backward()
            learn.step()
    return model.eval().requires_grad_(False)


def distil(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Say what the teacher says, and a little of the truth."""
    x, y = batch
    said = model(x)
    soft = F.kl_div((said / 2).log_softmax(1), (teacher()(x) / 2).softmax(1), reduction="batchmean")
    return 4 * soft + 0.3 * F.cross_entropy(said, y)


@healthy(epochs=6, accuracy=0.9)
def distillation() -> dict[str, Any]:
    """A second network that stands outside the model."""
    return setup(mlp(64, 10, width=32), split(*digit_rows()), compute_loss=distil)


def pair_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Pull equals together, push others beyond a margin."""
    left, right, same = batch
    apart = (model(left) - model(right)).square().sum(1)
    return (same * apart + (1 - same) * F.relu(1 - (apart + 1e-6).sqrt()).square()).mean()


@healthy(epochs=6, good=lambda first, last: last < 0.5 * first)
def contrastive_pairs() -> dict[str, Any]:
    """Pairs of digits: the same or not."""
    rows, labels = digit_rows()
    order = torch.randperm(len(rows), generator=seeded(9))
    mates = torch.where(
        torch.rand(len(rows), generator=seeded(10)) < 0.5, labels.argsort().roll(1)[labels.argsort().argsort()], order
    )
    same = (labels == labels[mates]).float()
    return setup(mlp(64, 8), split(rows, rows[mates], same), compute_loss=pair_loss, lr=1e-3)


class MeanTeacher(nn.Module):
    """A student and the moving average of what it was."""

    def __init__(self) -> None:
        super().__init__()
        self.student = mlp(64, 10)
        self.average = copy.deepcopy(self.student).requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The student learns, the average answers."""
        return self.student(x) if self.training else self.average(x)


def averaging_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """Take a step, and move the average a little."""
    x, y = batch
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(model.average.parameters(), model.student.parameters(), strict=True):
            slow.lerp_(fast, 0.1)
    return loss


@healthy(epochs=8, accuracy=0.9)
def moving_average_answers() -> dict[str, Any]:
    """Half of the model is never in a gradient, and is what is used in the end."""
    model = MeanTeacher()
    optimizer = torch.optim.Adam(model.student.parameters(), lr=3e-3)
    return setup(model, split(*digit_rows()), nn.CrossEntropyLoss(), optimizer=optimizer, train_step=averaging_step)
