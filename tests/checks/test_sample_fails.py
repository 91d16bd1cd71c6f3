"""Failing examples with samples that cannot be read."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import nbdebug
from tests.examples import failing_example


class Files(Dataset[Any]):
    """Samples of which some are broken."""

    def __init__(self, broken: set[int], ragged: bool = False) -> None:
        self.broken, self.ragged = broken, ragged

    def __len__(self) -> int:
        return 200

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index in self.broken:
            raise OSError(f"image file is truncated: {index}.png")
        return torch.randn(5 + (index % 2 if self.ragged else 0)), index % 2


def setup(data: Dataset[Any]) -> dict[str, Any]:
    return {"model": nn.Linear(5, 2), "loader": DataLoader(data, 16, shuffle=True), "loss_fn": nn.CrossEntropyLoss()}


@failing_example("sample-fails", where="loader.dataset[123]")
def one_broken_file() -> dict[str, Any]:
    """One file of two hundred cannot be opened."""
    return setup(Files({123}))


@failing_example("sample-fails")
def every_file_is_missing() -> dict[str, Any]:
    """A wrong path."""
    return setup(Files(set(range(200))))  # fixed: return setup(Files(set()))


@failing_example("sample-fails", where="loader.collate_fn")
def samples_of_different_lengths() -> dict[str, Any]:
    """Samples that do not fit together."""
    return setup(Files(set(), ragged=True))


def test_nothing_crashes_when_every_sample_fails() -> None:
    report = nbdebug.diagnose(**every_file_is_missing(), progress=False)
    assert report.findings[0].check == "sample-fails"
    assert "image file is truncated" in report.findings[0].says
    assert [r for r in report.results if r.status == "crashed"] == []


def test_readable_data_is_clean() -> None:
    setup_ = setup(TensorDataset(torch.randn(50, 5), torch.arange(50) % 2))
    assert nbdebug.diagnose(**setup_, checks=["sample-fails"], progress=False).result("sample-fails").status == "clean"
