"""Small programs around one loss: policies, mixtures, equations, rankings, boxes, diffusions, pairs, flows, codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from tests.zoo.samples import seeded

Program = dict[str, Any]
Loss = Callable[..., torch.Tensor]
ROWS = 96


def rows(width: int = 8, seed: int = 21) -> torch.Tensor:
    """Return normal draws."""
    return torch.randn(ROWS, width, generator=seeded(seed))


def kinds() -> torch.Tensor:
    """Return one of four classes for each row."""
    return rows()[:, :4].argmax(1)


def network(out: int, width: int = 8) -> nn.Module:
    """Return a small network."""
    return nn.Sequential(nn.Linear(width, 32), nn.Tanh(), nn.Linear(32, out))


def trained(model: nn.Module, *columns: torch.Tensor, **parts: Any) -> Program:
    """Return a set-up that trains a model on rows of these columns."""
    loader = DataLoader(TensorDataset(*columns), batch_size=32, shuffle=True)
    return {"model": model, "loader": loader, "optimizer": torch.optim.Adam(model.parameters()), **parts}


def learned(loss: Loss, *columns: torch.Tensor, out: int = 1) -> Program:
    """Return a program whose loss reads the outputs and these columns."""

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        return loss(model(batch[0]), *batch[1:])

    return trained(network(out), rows(), *columns, compute_loss=compute_loss)


def policy(loss: Loss) -> Program:
    """Return a program that draws actions and reads their log probabilities and returns."""

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        chosen = torch.distributions.Categorical(logits=model(batch[0]))
        action = chosen.sample()
        returns = (action == batch[1]).float() - 0.25
        return loss(chosen.log_prob(action), returns)

    return trained(network(4), rows(), kinds(), compute_loss=compute_loss)


def mixed(mix: Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]) -> Program:
    """Return a program that mixes inputs and one-hot targets."""

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        x, y = mix(batch[0], F.one_hot(batch[1], 4).float())
        return F.cross_entropy(model(x), y)

    return trained(network(4), rows(), kinds(), compute_loss=compute_loss)


def gradient(of: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Differentiate all entries at once."""
    return torch.autograd.grad(of, x, torch.ones_like(of), create_graph=True)[0]


def equation(operator: Loss, width: int = 2) -> Program:
    """Return a program that minimizes the residual of a differential equation."""

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        x = batch[0].clone().requires_grad_(True)
        return (operator(model(x), x) - x[:, 0].sin()).square().mean()

    return trained(network(1, width), rows(width), compute_loss=compute_loss)


class Ranking(nn.Module):
    """Scores of users and items."""

    def __init__(self) -> None:
        super().__init__()
        self.user, self.item = nn.Embedding(20, 6), nn.Embedding(90, 6)

    def forward(self, user: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
        """Return the scores."""
        return (self.user(user) * self.item(item)).sum(-1)


def ranked(draw: Callable[[nn.Embedding, torch.Tensor], torch.Tensor]) -> Program:
    """Return a program that ranks items above others that are drawn."""

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        user, item = batch
        return -F.logsigmoid(model(user, item) - model(user, draw(model.item, item))).mean()

    users, items = torch.arange(ROWS) % 20, torch.arange(ROWS) % 90
    return trained(Ranking(), users, items, compute_loss=compute_loss)


def corners(box: torch.Tensor) -> torch.Tensor:
    """Return the corners of boxes by center and size."""
    return torch.cat([box[:, :2] - box[:, 2:] / 2, box[:, :2] + box[:, 2:] / 2], 1)


def overlap(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the intersection over union of boxes by their corners."""

    def area(box: torch.Tensor) -> torch.Tensor:
        return (box[:, 2:] - box[:, :2]).prod(1)

    inner = (torch.min(one[:, 2:], other[:, 2:]) - torch.max(one[:, :2], other[:, :2])).clamp(min=0).prod(1)
    return (inner + 1e-3) / (area(one) + area(other) - inner + 1e-3)


def boxes(loss: Loss) -> Program:
    """Return a program that finds boxes by center and size."""
    centers = 0.5 + 0.1 * rows(2, seed=22)
    wanted = torch.cat([centers, 0.2 + 0.05 * rows(2, seed=23).abs()], 1)

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        return loss(model(batch[0]).sigmoid(), batch[1]).mean()

    return trained(network(4), rows(), wanted, compute_loss=compute_loss)


def counts(model: nn.Module) -> Program:
    """Return a program that predicts counts."""
    return trained(model, rows(), torch.poisson((0.5 * rows()[:, 0]).exp(), generator=seeded(24)))


def denoised(noisy: Loss) -> Program:
    """Return a program that predicts the noise that was added."""
    schedule = (1 - torch.linspace(1e-3, 0.2, 40)).cumprod(0)

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        x = batch[0]
        step = torch.randint(0, 40, (len(x),))
        noise = torch.randn_like(x)
        given = noisy(x, noise, schedule[step][:, None])
        return F.mse_loss(model(torch.cat([given, step[:, None] / 40], 1)), noise)

    return trained(network(3, 4), rows(3), compute_loss=compute_loss)


def two_views(loss: Loss) -> Program:
    """Return a program that compares the representations of two views of each row."""

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        return loss(model(batch[0]), model(batch[1]))

    noise = 0.05 * rows(seed=25)
    return trained(network(5), rows(), rows() + noise, compute_loss=compute_loss)


def alike(loss: Loss) -> Program:
    """Return a program of triplets whose second entry is a neighbor of the first one, and whose third is any row."""

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        return loss(*(model(part) for part in batch))

    near = rows() + 0.3 * rows(seed=26)
    return trained(network(5), rows(), near, rows(seed=27), compute_loss=compute_loss)


class Coupling(nn.Module):
    """A flow of two affine couplings."""

    def __init__(self) -> None:
        super().__init__()
        self.nets = nn.ModuleList(network(4, 2) for _ in range(2))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the density of the code, and the log determinant."""
        total = torch.zeros(len(x))
        for net in self.nets:
            kept, moved = x.chunk(2, 1)
            scale, shift = net(kept).chunk(2, 1)
            x = torch.cat([moved * scale.tanh().exp() + shift, kept], 1)
            total = total + scale.tanh().sum(1)
        return -0.5 * x.square().sum(1), total


def flow(loss: Loss) -> Program:
    """Return a program that fits a flow, by the density of the code and the log determinant."""

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        return loss(*model(batch[0]))

    return trained(Coupling(), rows(4) * torch.tensor([1.0, 2.0, 0.5, 1.0]), compute_loss=compute_loss)


class Autoencoder(nn.Module):
    """A variational autoencoder whose width is a function of its second output."""

    def __init__(self, width: Loss) -> None:
        super().__init__()
        self.encoder, self.decoder, self.width = network(6), network(8, 3), width

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the reconstruction, mean, code of the width, and width."""
        mean, code = self.encoder(x).chunk(2, 1)
        width = self.width(code)
        return self.decoder(mean + width * torch.randn_like(width)), mean, code, width


def half_exp(code: torch.Tensor) -> torch.Tensor:
    """Return the standard deviation of a log variance."""
    return (0.5 * code).exp()


def autoencoder(divergence: Loss, width: Loss = half_exp) -> Program:
    """Return a program that fits a variational autoencoder with this divergence."""

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        again, *code = model(batch[0])
        return F.mse_loss(again, batch[0], reduction="sum") / len(again) + divergence(*code)

    return trained(Autoencoder(width), rows(), compute_loss=compute_loss)


def normal_divergence(mean: torch.Tensor, log_variance: torch.Tensor, width: torch.Tensor) -> torch.Tensor:
    """Return the divergence of a normal distribution from the standard one."""
    return -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1).mean()
