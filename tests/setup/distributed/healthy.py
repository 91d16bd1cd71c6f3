"""Trainings of two processes that are as they should be, or where nothing says that they are not."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

import nbdebug
from tests.setup.distributed.scenes import on_two_ranks
from tests.setup.distributed.trainings import dealt, net, one_epoch, watched
from tests.zoo.samples import digit_rows


@on_two_ranks
def with_batchnorm() -> dict[str, Any]:
    return watched(DDP(net(nn.BatchNorm1d(32))), dealt(), epochs=3)


@on_two_ranks
def buffers_not_sent() -> dict[str, Any]:
    return watched(DDP(net(nn.BatchNorm1d(32)), broadcast_buffers=False), dealt(), epochs=3)


@on_two_ranks
def weighted_on_each() -> dict[str, Any]:
    torch.manual_seed(100 + dist.get_rank())
    data = TensorDataset(*digit_rows())
    drawn = WeightedRandomSampler(torch.rand(len(data)), 900)
    return watched(DDP(net()), DataLoader(data, 32, sampler=drawn))


@on_two_ranks
def split_model() -> dict[str, Any]:
    torch.manual_seed(100 + dist.get_rank())
    return watched(net(), dealt())


@on_two_ranks
def accumulated() -> dict[str, Any]:
    model, loader = DDP(net()), dealt()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with nbdebug.watch(model, optimizer) as live:
        for epoch in range(3):
            loader.sampler.set_epoch(epoch)
            for number, (x, y) in enumerate(loader):
                if number % 2 == 0:
                    with model.no_sync():
                        nn.functional.cross_entropy(model(x), y).backward()
                    continue
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
                optimizer.zero_grad()
    return {"recording": live.recording()}


@on_two_ranks
def uneven() -> dict[str, Any]:
    model = DDP(net())
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    share = range(900, 1700) if dist.get_rank() else range(900)
    loader = DataLoader(TensorDataset(*digit_rows()), 32, sampler=share)
    with nbdebug.watch(model, optimizer) as live, model.join():
        for _ in range(2):
            one_epoch(model, optimizer, loader)
    return {"recording": live.recording()}
