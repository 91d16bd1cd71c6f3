"""Failing examples whose inputs say nothing."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import digit_images, digit_rows


def network() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def setup(*columns: torch.Tensor) -> dict[str, Any]:
    loader = DataLoader(TensorDataset(*columns), 64, shuffle=True)
    return {"model": network(), "loader": loader, "loss_fn": nn.CrossEntropyLoss()}


@failing_example("constant-inputs", where="batch[0]")
def never_filled_buffer() -> dict[str, Any]:
    """The array was made with zeros, and nothing was written into it."""
    images, labels = digit_images()
    return setup(torch.zeros_like(images), labels)  # fixed: return setup(images, labels)


class IndexForgotten(Dataset[Any]):
    """Reads the first row for every index."""

    def __init__(self) -> None:
        self.rows, self.labels = digit_rows()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.rows[0], self.labels[index]


@failing_example("constant-inputs", where="batch[0]")
def index_forgotten() -> dict[str, Any]:
    """Every sample has the inputs of the first."""
    return {"model": network(), "loader": DataLoader(IndexForgotten(), 64), "loss_fn": nn.CrossEntropyLoss()}


@failing_example("constant-inputs", where="batch[0]")
def missing_files_read_as_black() -> dict[str, Any]:
    """A third of the pictures was not found."""
    images, labels = digit_images()
    images = images.clone()
    images[torch.rand(len(images), generator=torch.Generator().manual_seed(0)) < 0.33] = 0
    return setup(images, labels)


def alarms(**setup: Any) -> list[str]:
    return [str(f) for f in nbdebug.diagnose(**setup, checks=["constant-inputs"], progress=False).alarms]


def test_constant_columns_are_a_note() -> None:
    rows, labels = digit_rows()
    report = nbdebug.diagnose(**setup(rows, labels), checks=["constant-inputs"], progress=False)
    assert [f.severity for f in report.findings] == ["note"]


class WithMask(nn.Module):
    """Takes a mask that is all ones."""

    def __init__(self) -> None:
        super().__init__()
        self.body = network()

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.body(x * mask)


def test_a_mask_of_ones_is_no_illness() -> None:
    rows, labels = digit_rows()
    loader = DataLoader(TensorDataset(rows, torch.ones_like(rows), labels), 64)
    assert not alarms(model=WithMask(), loader=loader, loss_fn=nn.CrossEntropyLoss())


def test_blank_samples_of_one_class_are_no_illness() -> None:
    rows, labels = digit_rows()
    rows, labels = rows.clone(), labels.clone()
    rows[:400], labels[:400] = 0, 9
    assert not alarms(**setup(rows, labels))


def test_thousands_of_blank_samples_are_counted() -> None:
    """Where most files were not found, the share of each answer among them is a small number, and no overflow."""
    images = torch.rand(4000, 64)
    images[:3000] = 0
    report = nbdebug.diagnose(**setup(images, torch.arange(4000) % 10), checks=["constant-inputs"], progress=False)
    result = report.result("constant-inputs")
    assert [finding.severity for finding in result.findings] == ["suspect"]
    assert "10 different targets" in result.findings[0].says
