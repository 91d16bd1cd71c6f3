"""What the scenes with several processes are made of: a small network, its data, and a loop under watch on each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import nbdebug
from nbdebug.evidence.recording import Recording
from tests.zoo.samples import digit_rows


def net(*more: nn.Module) -> nn.Sequential:
    """Return a small network on digits."""
    return nn.Sequential(nn.Linear(64, 32), *more, nn.ReLU(), nn.Linear(32, 10))


def dealt(**options: Any) -> DataLoader[Any]:
    """Return the digits, dealt to the processes."""
    data = TensorDataset(*digit_rows())
    return DataLoader(data, 32, sampler=DistributedSampler(data), **options)


def average(model: nn.Module, left_out: tuple[str, ...] = ()) -> None:
    """Average the gradients of all processes by hand."""
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and name not in left_out:
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()


def one_epoch(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loader: DataLoader[Any],
    forward: nn.Module | None = None,
    before_step: Callable[[nn.Module], None] | None = None,
) -> None:
    """Train in a plain loop; `forward` is called in the place of the model."""
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy((forward or model)(x), y).backward()
        if before_step is not None:
            before_step(model)
        optimizer.step()


def watched(
    model: nn.Module,
    loader: DataLoader[Any],
    *,
    epochs: int = 2,
    forward: nn.Module | None = None,
    before_step: Callable[[nn.Module], None] | None = None,
) -> dict[str, Recording]:
    """Train under watch on this process; rank 0 records what all have to say."""
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with nbdebug.watch(model, optimizer) as live:
        dist.barrier()  # without averaging nothing else keeps one rank from ending before the other has begun
        for epoch in range(epochs):
            if isinstance(loader.sampler, DistributedSampler):
                loader.sampler.set_epoch(epoch)
            one_epoch(model, optimizer, loader, forward, before_step)
    return {"recording": live.recording()}
