"""Streams that all workers read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from tests.checks.networks import WIDTH, alarms
from tests.examples import failing_example

CHECK = "stream-not-split"
Sample = tuple[torch.Tensor, torch.Tensor]


class Stream(IterableDataset[Sample]):
    """Rows with classes, in a fixed order; split between the workers if wanted."""

    def __init__(self, split: bool = False, draw: bool = False) -> None:
        self.split, self.draw = split, draw

    def __iter__(self) -> Iterator[Sample]:
        """Yield every sample, or those of this worker."""
        generator = torch.Generator().manual_seed(5)
        info = get_worker_info()
        for index in range(200):
            x = torch.randn(WIDTH, generator=None if self.draw else generator)
            if not self.split or info is None or index % info.num_workers == info.id:
                yield x, (x[0] > 0).long()


def setup(dataset: Any, workers: int = 2, **options: Any) -> dict[str, Any]:
    """Train on a stream."""
    model = nn.Sequential(nn.Linear(WIDTH, 16), nn.ReLU(), nn.Linear(16, 2))
    loader = DataLoader(dataset, num_workers=workers, **{"batch_size": 16, **options})
    return {"model": model, "loader": loader, "loss_fn": nn.CrossEntropyLoss()}


@failing_example(CHECK, where="loader")
def whole_stream_in_each_worker() -> dict[str, Any]:
    """Two workers, one stream."""
    return setup(Stream())  # fixed: return setup(Stream(split=True))


@failing_example(CHECK, where="loader")
def small_batches() -> dict[str, Any]:
    """Batches of four."""
    return setup(Stream(), batch_size=4)


class Batched(IterableDataset[Sample]):
    """A stream that yields whole batches from a table."""

    def __iter__(self) -> Iterator[Sample]:
        """Cut the table into batches."""
        table = torch.randn(64, WIDTH, generator=torch.Generator().manual_seed(6))
        for rows in table.split(8):
            yield rows, (rows[:, 0] > 0).long()


@failing_example(CHECK, where="loader")
def batches_of_a_table() -> dict[str, Any]:
    """Ready-made batches."""
    return setup(Batched(), batch_size=None)


@pytest.mark.parametrize(
    "make",
    [
        lambda: setup(Stream(split=True)),
        lambda: setup(Stream(draw=True)),
        lambda: setup(Stream(), workers=0),
        lambda: setup(Stream(), worker_init_fn=print),
        lambda: setup(list(Stream())),
    ],
    ids=["split", "random", "no workers", "init", "no stream"],
)
def test_silent(make: Any) -> None:
    assert not alarms(CHECK, **make())
