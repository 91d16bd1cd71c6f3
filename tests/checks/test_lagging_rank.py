"""A process that the others wait for."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import default_collate

from nbdebug.watch.judging import judged
from tests.examples import failing_recording
from tests.setup.distributed.scenes import on_two_ranks, scene
from tests.setup.distributed.trainings import dealt, net, watched


def from_disk(samples: list[Any]) -> Any:
    """Read a batch; the disk of rank 1 is slow."""
    time.sleep(0.04 * dist.get_rank())  # fixed:
    return default_collate(samples)


@failing_recording("lagging-rank", where="rank 1")
@on_two_ranks
def late_data() -> dict[str, Any]:
    """The data of one process come late."""
    return watched(DDP(net()), dealt(collate_fn=from_disk))


class Slow(nn.Module):
    """A layer that takes its time on rank 1."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.04 * dist.get_rank())
        return x


@failing_recording("lagging-rank", where="rank 1")
@on_two_ranks
def late_forward() -> dict[str, Any]:
    """One process computes longer."""
    return watched(DDP(net(Slow())), dealt())


@pytest.mark.parametrize("name", ["with_batchnorm", "accumulated", "weighted_on_each", "bypassed_wrapper"])
def test_healthy_runs_are_silent(name: str) -> None:
    assert judged(scene(name)).result("lagging-rank").status == "clean"


def test_says_which_part_is_late() -> None:
    parts = [
        judged(scene(name)).result("lagging-rank").findings[0].evidence["part"]
        for name in ("late_data", "late_forward")
    ]
    assert parts == ["data", "forward"]
