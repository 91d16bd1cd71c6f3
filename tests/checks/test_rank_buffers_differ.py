"""Processes whose constants are not the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from nbdebug.watch.judging import judged
from tests.examples import failing_recording
from tests.setup.distributed.scenes import on_two_ranks, scene
from tests.setup.distributed.trainings import average, dealt, net, watched
from tests.zoo.samples import digit_rows


class Features(nn.Module):
    """A linear model of random features."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("projection", torch.randn(64, 32))
        self.head = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.cos(x @ self.projection))


@failing_recording("rank-buffers-differ", where="projection")
@on_two_ranks
def random_features() -> dict[str, Any]:
    """Random features are drawn on each process, and nothing sends them round."""
    torch.manual_seed(dist.get_rank())
    model = DDP(Features(), broadcast_buffers=False)  # fixed: model = DDP(Features())
    return watched(model, dealt())


class Standard(nn.Module):
    """A network that scales its inputs by what it saw of the data."""

    def __init__(self, values: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", values.mean(0))
        self.register_buffer("spread", values.std(0) + 0.1)
        self.inner = net()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner((x - self.mean) / self.spread)


@failing_recording("rank-buffers-differ", where="mean")
@on_two_ranks
def scaled_by_shard() -> dict[str, Any]:
    """Each process scales by its own share of the data."""
    shard = digit_rows()[0][dist.get_rank() * 100 :][:100]
    return watched(Standard(shard), dealt(), before_step=average)


@pytest.mark.parametrize("name", ["with_batchnorm", "accumulated"])
def test_healthy_runs_are_silent(name: str) -> None:
    assert judged(scene(name)).result("rank-buffers-differ").status == "clean"


def test_running_statistics_that_are_not_sent_are_a_note() -> None:
    found = judged(scene("buffers_not_sent")).result("rank-buffers-differ").findings
    assert [finding.severity for finding in found] == ["note"]
