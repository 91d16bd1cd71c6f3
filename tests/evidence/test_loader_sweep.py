"""The look through the loader: bounded, at random over all of the data, and honest about what it saw."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, SubsetRandomSampler, TensorDataset

from nbdebug.engine.session import Session
from nbdebug.evidence.epoch_order import EpochOrder
from nbdebug.evidence.loader_sweep import LoaderSweep
from nbdebug.setup import Setup


def sweep(loader: Any, model: nn.Module | None = None, **options: Any) -> LoaderSweep:
    found = Session(Setup(model or nn.Linear(4, 3), loader, **options)).gather(LoaderSweep)
    assert isinstance(found, LoaderSweep)
    return found


class Counted(TensorDataset):
    """Writes a dot for each sample that is asked for: whatever it kept in memory would be put back as it was."""

    def __init__(self, log: Path, *tensors: torch.Tensor) -> None:
        super().__init__(*tensors)
        self.log = log

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        with self.log.open("ab") as log:
            log.write(b".")
        return super().__getitem__(index)


def test_of_a_million_samples_few_are_drawn_from_all_over(tmp_path: Path) -> None:
    count = 1_000_000
    data = Counted(tmp_path / "log", torch.randn(count, 4), torch.arange(count) * 3 // count)
    seen = sweep(DataLoader(data, 64))
    assert 4096 <= data.log.stat().st_size < 3 * 4096
    assert seen.way == "random" and seen.seen == 4096
    assert np.bincount(seen.labels["batch[1]"].astype(int)).min() > 1000
    assert set(seen.ordered.labels["batch[1]"]) == {0.0}


class Slow(Dataset[Any]):
    """Takes a hundredth of a second for a sample."""

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(0.01)
        return torch.randn(4), index % 3


def test_a_slow_data_set_gives_part_of_the_evidence_in_time() -> None:
    seen = sweep(DataLoader(Slow(), 512, shuffle=True), sweep_seconds=1.5)
    assert seen.stopped and 0 < seen.seen < 151  # as many as can be slept through in that time, or fewer
    assert "of 100000 samples (chosen at random)" in seen.says


def test_the_number_of_samples_can_be_set() -> None:
    data = TensorDataset(torch.randn(1000, 4), torch.arange(1000) % 3)
    assert sweep(DataLoader(data, 10), sweep_samples=100).seen == 100
    everything = sweep(DataLoader(data, 10))
    assert everything.way == "all" and everything.says == "all 1000 samples"


class Endless(IterableDataset[Any]):
    """A stream without an end."""

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield torch.randn(4), 1


def test_streams_and_lists_are_read_as_far_as_they_go() -> None:
    stream = sweep(DataLoader(Endless(), 32), sweep_samples=256)
    assert stream.way == "first" and 256 <= stream.seen <= 1100
    batches = [(torch.randn(8, 4), torch.zeros(8)) for _ in range(5)]
    assert sweep(batches).way == "all" and sweep(batches).seen == 40


def test_what_the_sampler_draws_is_what_counts() -> None:
    labels = torch.arange(1000) % 10
    rare = (labels == 3).nonzero().flatten().tolist()
    data = DataLoader(TensorDataset(torch.randn(1000, 4), labels), 16, sampler=SubsetRandomSampler(rare))
    assert set(sweep(data).labels["batch[1]"]) == {3.0}


def test_batches_of_any_form_are_read() -> None:
    class Named(Dataset[Any]):
        def __len__(self) -> int:
            return 50

        def __getitem__(self, index: int) -> dict[str, Any]:
            return {"x": torch.randn(4), "labels": index % 2, "name": "sample"}

    class ByName(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x)

    seen = sweep(DataLoader(Named(), 8), ByName(4, 2))
    assert [part.name for part in seen.inputs] == ["x"] and list(seen.labels) == ["labels"]

    def ragged(samples: list[Any]) -> Any:
        return [torch.randn(3 + i % 4, 2) for i, _ in enumerate(samples)], torch.tensor([s[1] for s in samples])

    data = TensorDataset(torch.randn(40, 4), torch.arange(40) % 2)
    parts = sweep(DataLoader(data, 8, collate_fn=ragged)).inputs
    assert len(parts) == 1 and parts[0].samples == 40


def test_two_passes_of_a_seeded_loader_differ() -> None:
    data = TensorDataset(torch.randn(100, 4), torch.arange(100) % 2)
    loader = DataLoader(data, 8, shuffle=True, generator=torch.Generator().manual_seed(0))
    order = Session(Setup(nn.Linear(4, 2), loader)).gather(EpochOrder)
    assert not order.same_order and order.distinct == 100
