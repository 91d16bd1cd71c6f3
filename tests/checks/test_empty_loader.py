"""Failing examples whose loader gives nothing."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, SubsetRandomSampler, TensorDataset

import nbdebug
from tests.examples import failing_example


def rows(count: int) -> TensorDataset:
    return TensorDataset(torch.randn(count, 5), torch.arange(count) % 2)


def setup(loader: Any) -> dict[str, Any]:
    return {"model": nn.Linear(5, 2), "loader": loader, "loss_fn": nn.CrossEntropyLoss()}


@failing_example("empty-loader", where="loader")
def batch_larger_than_the_data() -> dict[str, Any]:
    """The only batch is incomplete, and dropped."""
    return setup(DataLoader(rows(40), 64, drop_last=True))


@failing_example("empty-loader", where="loader")
def nothing_found() -> dict[str, Any]:
    """A filter that left nothing."""
    return setup(DataLoader(rows(0), 8))


@failing_example("empty-loader", where="loader")
def sampler_without_indices() -> dict[str, Any]:
    """A split that gave the training part nothing."""
    return setup(DataLoader(rows(100), 8, sampler=SubsetRandomSampler([])))


@failing_example("empty-loader", where="loader")
def no_batches() -> dict[str, Any]:
    """A list that was never filled."""
    return setup([])  # fixed: return setup([(torch.rand(16, 5), torch.arange(16) % 2)])


class Slow(Dataset[Any]):
    """Takes long for every sample."""

    def __init__(self, log: Path) -> None:
        self.log = log

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        with self.log.open("a", encoding="utf-8") as log:
            log.write(".")  # a file: what experiments change of the user's objects is put back
        time.sleep(0.01)
        return torch.randn(5), index % 2


def test_all_other_checks_are_skipped_and_none_crashes() -> None:
    report = nbdebug.diagnose(**batch_larger_than_the_data(), progress=False)
    assert report.findings[0].check == "empty-loader"
    assert [r for r in report.results if r.status == "crashed"] == []


def test_a_slow_data_set_ends_with_part_of_it(tmp_path: Path) -> None:
    data = Slow(tmp_path / "log")
    report = nbdebug.diagnose(
        **setup(DataLoader(data, 8, shuffle=True)), checks=["empty-loader"], sweep_seconds=1.0, progress=False
    )
    assert report.result("empty-loader").status == "clean"
    assert 0 < data.log.stat().st_size < 1_000  # of a hundred thousand
