"""Processes that see the same data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, TensorDataset  # noqa: F401, for the cure

from nbdebug.watch.judging import judged
from tests.examples import failing_recording
from tests.setup.distributed.scenes import on_two_ranks, scene
from tests.setup.distributed.trainings import net, watched
from tests.zoo.samples import digit_rows


@failing_recording("ranks-share-data", where="loader")
@on_two_ranks
def one_seed_no_sampler() -> dict[str, Any]:
    """shuffle=True on every process, from the same seed."""
    data = TensorDataset(*digit_rows())
    loader = DataLoader(data, 64, shuffle=True)
    # fixed: loader = DataLoader(data, 64, sampler=DistributedSampler(data))
    return watched(DDP(net()), loader, epochs=1)


class Unsharded(IterableDataset[Any]):
    """A stream that knows nothing of processes."""

    def __iter__(self) -> Iterator[Any]:
        return zip(*(values[:640] for values in digit_rows()), strict=True)


@failing_recording("ranks-share-data", where="loader")
@on_two_ranks
def unsharded_stream() -> dict[str, Any]:
    """A stream that every process reads from the beginning."""
    return watched(DDP(net()), DataLoader(Unsharded(), 32))


@pytest.mark.parametrize("name", ["with_batchnorm", "accumulated", "weighted_on_each", "uneven", "epoch_not_told"])
def test_healthy_runs_are_silent(name: str) -> None:
    assert judged(scene(name)).result("ranks-share-data").status == "clean"
