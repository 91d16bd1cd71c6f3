"""A fifth round: scales and penalties that do not fit. Each has its sound twin, `make(is_faulty=False)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.unseen import unseen
from tests.unseen.fifth_parts import Made, SetNet, SignalNet, clouds, loaders, made, plants, spread, tower, waves


@unseen("initialization-off-scale", "activations-off-scale", "saturated-units", "initial-loss-off")
def weights_of_unit_variance(is_faulty: bool = True) -> Made:
    """`randn` for the weights of tanh layers."""
    model = tower(width=96, act=nn.Tanh)
    model = spread(model, 1.0) if is_faulty else model
    return made(model, loaders(*plants()), nn.MSELoss(), torch.optim.SGD(model.parameters(), 0.05, momentum=0.9))


@unseen("initialization-off-scale", "vanishing-gradients", "activations-off-scale")
def weights_of_a_thousandth(is_faulty: bool = True) -> Made:
    """A standard deviation of 0.003, which was meant for the last layer."""
    model = tower(48, 48, 4)
    model = spread(model, 3e-3) if is_faulty else model
    return made(model, loaders(*waves()), nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), 0.2, momentum=0.9))


class Sums(nn.Module):
    """Messages between all points, added up in each of six rounds."""

    def __init__(self, mean: bool) -> None:
        super().__init__()
        self.mean, self.enter = mean, nn.Linear(2, 32)
        self.rounds = nn.ModuleList(nn.Linear(32, 32) for _ in range(6))
        self.out = nn.Linear(32, 3)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        """Return the scores of the set."""
        hidden = self.enter(points)
        near = (torch.cdist(points, points) < 2.0).float()
        near = near / near.sum(-1, keepdim=True) if self.mean else near
        for layer in self.rounds:
            hidden = F.relu(layer(near @ hidden)) + hidden
        return self.out(hidden.mean(1))


@unseen("activations-off-scale", "exploding-gradients", "initialization-off-scale", "initial-loss-off")
def neighbors_added_up(is_faulty: bool = True) -> Made:
    """Sums over the neighbors, round after round, where means were due."""
    model = Sums(mean=not is_faulty)
    return made(model, loaders(*clouds()), nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), 2e-3))


@unseen("excessive-dropout")
def dropout_of_nine_tenths(is_faulty: bool = True) -> Made:
    """The share to keep, given as the share to drop, behind each layer."""
    drop = nn.Dropout(0.95 if is_faulty else 0.05)
    model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), drop, nn.Linear(64, 64), nn.ReLU(), drop, nn.Linear(64, 1))
    return made(model, loaders(*plants()), nn.MSELoss(), torch.optim.Adam(model.parameters(), 3e-3))


@unseen("excessive-weight-decay")
def decay_of_a_half(is_faulty: bool = True) -> Made:
    """A weight decay of 0.5 in the gradient."""
    model = SetNet()
    adam = torch.optim.Adam(model.parameters(), 2e-3, weight_decay=0.5 if is_faulty else 1e-4)
    return made(model, loaders(*clouds()), nn.CrossEntropyLoss(), adam)


def weighed(beta: float) -> Callable[..., torch.Tensor]:
    """Return a loss with a penalty on what the network computes inside."""

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        points, kind = batch
        inner = model.point(points)
        return loss_fn(model.set(inner.amax(1)), kind) + beta * inner.square().sum((1, 2)).mean()

    return compute_loss


@unseen("loss-terms-unbalanced", where="compute_loss")
def penalty_drowns(is_faulty: bool = True) -> Made:
    """A penalty on activations that outweighs the error."""
    model = SetNet()
    adam = torch.optim.Adam(model.parameters(), 2e-3)
    compute = weighed(1.0 if is_faulty else 1e-5)
    return made(model, loaders(*clouds()), nn.CrossEntropyLoss(), adam, compute_loss=compute)


@unseen("unnormalized-inputs", "feature-scales-differ", "saturated-units")
def kelvin_and_pascal(is_faulty: bool = True) -> Made:
    """Readings in the units of their sensors."""
    x, y = plants()
    units = torch.tensor([1.0, 1.0, 20.0, 0.001, 1.0, 400.0, 1e4, 1.0])
    offset = torch.tensor([0.0, 0.0, 0.0, 0.0, 0.0, 300.0, 1e5, 0.0])
    x = x * units + offset if is_faulty else x
    model = tower(act=nn.Tanh)
    return made(model, loaders(x, y), nn.MSELoss(), torch.optim.Adam(model.parameters(), 4e-3))


@unseen("unusual-optimizer", "training-slow", "learning-rate-too-low")
def epsilon_of_one(is_faulty: bool = True) -> Made:
    """An `eps` of 10, from a search over powers of ten."""
    model = SignalNet()
    adam = torch.optim.Adam(model.parameters(), 2e-3, eps=10.0 if is_faulty else 1e-8)
    return made(model, loaders(*waves()), nn.CrossEntropyLoss(), adam)


@unseen("learning-rate-too-high", "unusual-optimizer")
def sgd_jumps(is_faulty: bool = True) -> Made:
    """A rate of 3 with momentum."""
    model = SignalNet()
    sgd = torch.optim.SGD(model.parameters(), 3.0 if is_faulty else 0.1, momentum=0.9)
    return made(model, loaders(*waves()), nn.CrossEntropyLoss(), sgd)
