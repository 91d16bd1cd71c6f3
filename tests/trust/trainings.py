"""Training runs that stop at certain moments, so that a test can look at them with nbdebug and go on.

Each is a generator: it yields the name of the moment with the arguments of `nbdebug.diagnose`, and trains on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, RandomSampler

from tests.trust.setups import loader, mlp, rows

Moments = Iterator[tuple[str, dict[str, Any]]]
Training = Callable[[], Moments]
TRAININGS: dict[str, Training] = {}


def training(make: Training) -> Training:
    """Register a training run."""
    TRAININGS[make.__name__] = make
    return make


def run(
    model: nn.Module, batches: Any, optimizer: Any, *, scheduler: Any = None, every: int = 1, **more: Any
) -> Moments:
    """Train for two epochs, accumulating over so many batches, and stop before, in the middle and after."""
    loss_fn = nn.CrossEntropyLoss()
    setup = {
        "model": model,
        "loader": batches,
        "loss_fn": loss_fn,
        "optimizer": optimizer,
        "scheduler": scheduler,
        **more,
    }
    yield "before", setup
    for epoch in range(2):
        for index, (values, labels) in enumerate(batches):
            loss = loss_fn(model(values), labels)
            if epoch == 0 and index == 1:
                yield "mid-epoch", setup  # with a loss whose backward pass is still to come
            (loss / every).backward()
            if (index + 1) % every == 0:
                optimizer.step()
                optimizer.zero_grad()
        if scheduler is not None:
            scheduler.step()
        if epoch == 0:
            yield "between epochs", setup
    yield "after", setup


def dropout_net() -> nn.Sequential:
    """Return a network whose training draws random numbers and keeps statistics."""
    return mlp(nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3))


@training
def sgd_momentum() -> Moments:
    model = dropout_net()
    return run(model, loader(shuffle=True), torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))


@training
def adamw() -> Moments:
    model = dropout_net()
    return run(model, loader(shuffle=True), torch.optim.AdamW(model.parameters(), lr=1e-2))


@training
def fused_adamw() -> Moments:
    model = dropout_net()
    return run(model, loader(shuffle=True), torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True))


@training
def lbfgs() -> Moments:
    model, batches = dropout_net(), loader(shuffle=True)
    optimizer, loss_fn = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3), nn.CrossEntropyLoss()
    setup = {"model": model, "loader": batches, "loss_fn": loss_fn, "optimizer": optimizer}
    yield "before", setup
    for index, (values, labels) in enumerate(batches):

        def closure(values: Any = values, labels: Any = labels) -> torch.Tensor:
            optimizer.zero_grad()
            loss = loss_fn(model(values), labels)
            loss.backward()
            return loss

        optimizer.step(closure)
        if index == 1:
            yield "mid-epoch", setup
    yield "after", setup


@training
def scheduled() -> Moments:
    model = dropout_net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
    return run(model, loader(shuffle=True), optimizer, scheduler=scheduler)


@training
def mixed_precision() -> Moments:
    model, batches = dropout_net(), loader(shuffle=True)
    optimizer, loss_fn = torch.optim.AdamW(model.parameters(), lr=1e-2), nn.CrossEntropyLoss()
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0, growth_interval=2)

    def train_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(batch[0]), batch[1])
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    setup = {"model": model, "loader": batches, "loss_fn": loss_fn, "optimizer": optimizer, "train_step": train_step}
    yield "before", setup
    for index, batch in enumerate([*batches, *batches]):
        train_step(model, batch, loss_fn, optimizer)
        if index in (1, 2):
            yield ("mid-epoch" if index == 1 else "between epochs"), setup
    yield "after", setup


@training
def accumulation() -> Moments:
    model = dropout_net()
    return run(model, loader(shuffle=True), torch.optim.AdamW(model.parameters(), lr=1e-2), every=2)


@training
def two_workers() -> Moments:
    model = dropout_net()
    return run(model, loader(shuffle=True, num_workers=2), torch.optim.AdamW(model.parameters(), lr=1e-2))


@training
def persistent_workers() -> Moments:
    model = dropout_net()
    batches = loader(shuffle=True, num_workers=1, persistent_workers=True, size=4)
    return run(model, batches, torch.optim.AdamW(model.parameters(), lr=1e-2))


@training
def own_generators() -> Moments:
    model, data = dropout_net(), rows()
    sampler = RandomSampler(data, generator=torch.Generator().manual_seed(4))
    batches = DataLoader(data, 8, sampler=sampler, generator=torch.Generator().manual_seed(5))
    return run(model, batches, torch.optim.AdamW(model.parameters(), lr=1e-2))


class Stream(IterableDataset):
    """A stream with noise from its own generator."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(9)

    def __iter__(self) -> Iterator[Any]:
        for values, label in rows():
            yield values + 0.1 * torch.randn(6, generator=self.generator), label


@training
def iterable() -> Moments:
    model = dropout_net()
    return run(model, loader(Stream()), torch.optim.AdamW(model.parameters(), lr=1e-2))


@training
def frozen_batchnorm() -> Moments:
    model = dropout_net()
    model[1].eval()
    return run(model, loader(shuffle=True), torch.optim.AdamW(model.parameters(), lr=1e-2))


@training
def compiled() -> Moments:
    inner = dropout_net()
    model = torch.compile(inner, backend="eager")
    return run(model, loader(shuffle=True), torch.optim.AdamW(inner.parameters(), lr=1e-2))


@training
def noise_from_the_model() -> Moments:
    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.generator = dropout_net(), torch.Generator().manual_seed(8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x + 0.1 * torch.randn(x.shape, generator=self.generator))

    model = Noisy()
    return run(model, loader(shuffle=True), torch.optim.AdamW(model.parameters(), lr=1e-2))


@training
def spectral_norm() -> Moments:
    model = mlp(nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8)), nn.ReLU())
    return run(model, loader(shuffle=True), torch.optim.AdamW(model.parameters(), lr=1e-2))
