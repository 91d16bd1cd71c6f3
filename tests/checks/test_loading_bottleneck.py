"""Loaders that keep the model waiting."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import nbdebug
from tests import loops
from tests.examples import failing_example


class Slow(Dataset[Any]):
    """Samples that take their time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        """Return the number of samples."""
        return 256

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        """Wait, and give a sample."""
        time.sleep(self.seconds)
        return torch.randn(64, generator=torch.Generator().manual_seed(index)), index % 10


def slow(seconds: float, batch_size: int) -> dict[str, Any]:
    """Return a set-up whose samples take this long."""
    loader = DataLoader(Slow(seconds), batch_size, shuffle=True)
    return {"model": loops.mlp(), "loader": loader, "loss_fn": nn.CrossEntropyLoss()}


@failing_example("loading-bottleneck", where="loader")
def many_slow_samples() -> dict[str, Any]:
    """Thirty-two samples of ten milliseconds each."""
    return slow(0.01, 32)  # fixed: return slow(0.0, 32)


@failing_example("loading-bottleneck", where="loader")
def few_very_slow_samples() -> dict[str, Any]:
    """Eight samples of forty milliseconds each."""
    return slow(0.04, 8)


def test_a_table_in_memory_is_clean() -> None:
    """A small table is drawn in no time, however small the model is."""
    report = nbdebug.diagnose(**loops.setup(), checks=["loading-bottleneck"], progress=False)
    assert report.results[0].status == "clean"
