"""Healthy set-ups that do not begin at the beginning: trained before, frozen in parts."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from tests.examples import healthy
from tests.zoo.images import convolutional
from tests.zoo.samples import Loaders, digit_images, digit_rows, setup, split

TRAINED: dict[Any, dict[str, Any]] = {}


def pretrained(model: nn.Module, x: torch.Tensor, y: torch.Tensor, steps: int = 60) -> nn.Module:
    """Train a model a while on these samples; what this seed gave before is not trained again."""
    key = (torch.initial_seed(), repr(model), len(x), steps)
    if key in TRAINED:
        model.load_state_dict(TRAINED[key])
        return model
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(steps):
        part = torch.arange(64 * step, 64 * step + 64) % len(x)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[part]), y[part]).backward()
        optimizer.step()
    TRAINED[key] = copy.deepcopy(model.state_dict())
    return model


def small_and_large() -> tuple[tuple[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """Return the digits below five, and the others counted from 0."""
    images, labels = digit_images()
    small = labels < 5
    return (images[small], labels[small]), (images[~small], labels[~small] - 5)


class Transferred(nn.Module):
    """A backbone from elsewhere with a new head."""

    def __init__(self, backbone: nn.Module, width: int, classes: int) -> None:
        super().__init__()
        self.backbone, self.head = backbone, nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify what the backbone sees."""
        return self.head(self.backbone(x))


@healthy(epochs=6, good=lambda first, last: last < 0.8 * first, accuracy=0.9)
def frozen_backbone() -> dict[str, Any]:
    """Only the new head is trained, and only it is in the optimizer."""
    images, labels = digit_images()
    body = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    backbone = pretrained(body, images, labels)[:-1].requires_grad_(False)
    model = Transferred(backbone, 64, 2)
    optimizer = torch.optim.Adam(model.head.parameters(), lr=1e-2)
    return setup(model, split(images, labels % 2, batch_size=32), nn.CrossEntropyLoss(), optimizer=optimizer)


class FrozenStatistics(Transferred):
    """A backbone whose batch normalization stays as it was, whatever mode is asked for."""

    def train(self, mode: bool = True) -> FrozenStatistics:
        """Keep the normalization in eval mode."""
        super().train(mode)
        for module in self.backbone.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()
        return self


@healthy(epochs=8, accuracy=0.85)
def frozen_batchnorm_statistics() -> dict[str, Any]:
    """All weights are trained on, but not the normalization."""
    old, new = small_and_large()
    backbone = pretrained(convolutional(), *old)[:-1]
    model = FrozenStatistics(backbone, 32, 5).train()
    for module in model.backbone.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.requires_grad_(False)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=3e-3)
    return setup(model, split(*new, batch_size=32), nn.CrossEntropyLoss(), optimizer=optimizer)


def _train_part(data: Loaders) -> tuple[torch.Tensor, torch.Tensor]:
    return data[0].dataset.tensors


@healthy(epochs=3, good=lambda first, last: last < first, accuracy=0.9)
def already_trained() -> dict[str, Any]:
    """The first loss is far below chance, because the work was done before."""
    data = split(*digit_rows())
    model = pretrained(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)), *_train_part(data), steps=200)
    return setup(model, data, nn.CrossEntropyLoss(), lr=1e-3)


@healthy(epochs=3, good=lambda first, last: last < 1.2 * first, accuracy=0.9)
def trained_convolutions_left_in_eval() -> dict[str, Any]:
    """A trained model with settled batch statistics, as it comes from a checkpoint for inference."""
    data = split(*digit_images())
    model = pretrained(convolutional(), *_train_part(data), steps=150).eval()
    return setup(model, data, nn.CrossEntropyLoss(), lr=1e-3)


class LowRank(nn.Module):
    """A frozen linear layer with a small trainable correction that begins at zero."""

    def __init__(self, base: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(base.in_features, rank) / base.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(rank, base.out_features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Correct what the frozen layer says."""
        return self.base(x) + x @ self.down @ self.up


@healthy(epochs=6, good=lambda first, last: last < 0.7 * first, accuracy=0.9)
def low_rank_adapters() -> dict[str, Any]:
    """Frozen layers everywhere, each with a trainable neighbor."""
    old, new = small_and_large()
    body = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5))
    body = pretrained(body, *old)
    backbone = nn.Sequential(nn.Flatten(), LowRank(body[1]), nn.ReLU(), LowRank(body[3]), nn.ReLU())
    model = Transferred(backbone, 64, 5)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=5e-3)
    return setup(model, split(*new, batch_size=32), nn.CrossEntropyLoss(), optimizer=optimizer)
