"""Epochs that repeat each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Sampler, TensorDataset

import nbdebug
from nbdebug.watch.judging import judged
from tests.examples import failing_recording
from tests.setup.distributed.scenes import on_two_ranks, scene
from tests.setup.distributed.trainings import dealt, net, one_epoch, watched
from tests.zoo.samples import digit_rows


@failing_recording("epochs-in-one-order", where="loader")
@on_two_ranks
def epoch_not_told() -> dict[str, Any]:
    """A DistributedSampler without set_epoch."""
    model, loader = DDP(net()), dealt()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with nbdebug.watch(model, optimizer) as live:
        for epoch in range(3):  # noqa: B007
            one_epoch(model, optimizer, loader)
            # fixed: loader.sampler.set_epoch(epoch)
            # fixed: one_epoch(model, optimizer, loader)
    return {"recording": live.recording()}


class OwnShare(Sampler[int]):
    """The share of this process of a shuffled data set, in a new order for each epoch that it is told."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        order = torch.randperm(640, generator=torch.Generator().manual_seed(self.epoch))
        return iter(order[dist.get_rank() :: 2].tolist())

    def __len__(self) -> int:
        return 320


@failing_recording("epochs-in-one-order", where="loader")
@on_two_ranks
def own_sampler() -> dict[str, Any]:
    """A sampler of the user's own, which is not told the epoch either."""
    return watched(DDP(net()), DataLoader(TensorDataset(*digit_rows()), 32, sampler=OwnShare()), epochs=3)


@pytest.mark.parametrize("name", ["with_batchnorm", "weighted_on_each"])
def test_healthy_runs_are_silent(name: str) -> None:
    assert judged(scene(name)).result("epochs-in-one-order").status == "clean"


def test_an_order_without_a_sampler_that_shuffles_is_a_note() -> None:
    report = judged(scene("uneven"))
    assert [finding.severity for finding in report.result("epochs-in-one-order").findings] == ["note"]
    assert not report.alarms


def test_a_sampler_that_was_not_told_is_an_alarm() -> None:
    assert [finding.check for finding in judged(scene("epoch_not_told")).alarms] == ["epochs-in-one-order"]
