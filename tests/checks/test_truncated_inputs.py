"""Failing examples whose values were cut down to whole numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset, default_collate

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import cancer, digit_images, digit_rows, seeded


def network(inputs: int = 64, outputs: int = 10) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs))


class DividedWithoutRemainder(Dataset[Any]):
    """Pictures from 0 to 255, scaled by an integer division."""

    def __init__(self) -> None:
        pixels, self.labels = load_digits(return_X_y=True)
        self.images = (pixels / 16 * 255).astype(np.uint8)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.tensor(self.images[index] // 255, dtype=torch.float32), int(self.labels[index])


@failing_example("truncated-inputs", where="batch[0]")
def divided_without_remainder() -> dict[str, Any]:
    """// where / was meant."""
    return {"model": network(), "loader": DataLoader(DividedWithoutRemainder(), 64, shuffle=True),
            "loss_fn": nn.CrossEntropyLoss()}  # fmt: skip


def collate_to_integers(samples: list[Any]) -> Any:
    inputs, labels = default_collate(samples)
    return inputs.long().float(), labels


@failing_example("truncated-inputs", where="batch[0]")
def cast_while_collating() -> dict[str, Any]:
    """Everything is made an integer because the labels have to be."""
    loader = DataLoader(TensorDataset(*digit_images()), 64, shuffle=True, collate_fn=collate_to_integers)
    return {"model": network(), "loader": loader, "loss_fn": nn.CrossEntropyLoss()}


@failing_example("truncated-inputs", where="batch[0]")
def standardized_columns_as_integers() -> dict[str, Any]:
    """A scaled table was put into an integer tensor."""
    rows, labels = cancer()
    data = TensorDataset(rows.int().float(), labels)  # fixed: data = TensorDataset(rows, labels)
    return {"model": network(30, 1), "loader": DataLoader(data, 32, shuffle=True), "loss_fn": nn.BCEWithLogitsLoss()}


def alarms(rows: torch.Tensor, labels: torch.Tensor) -> list[str]:
    setup = {"model": network(rows[0].numel(), 10), "loader": DataLoader(TensorDataset(rows, labels), 64)}
    report = nbdebug.diagnose(**setup, loss_fn=nn.CrossEntropyLoss(), checks=["truncated-inputs"], progress=False)
    return [str(f) for f in report.alarms]


def test_binary_pictures_one_hot_rows_and_counts_are_no_illness() -> None:
    rows, labels = digit_rows()
    assert not alarms((rows > 0.5).float(), labels)
    one_hot = nn.functional.one_hot(torch.randint(0, 50, (1797,), generator=seeded())).float()
    assert not alarms(one_hot, labels)
    assert not alarms(torch.poisson(torch.full((1797, 20), 2.0), generator=seeded()), labels)
    assert not alarms(torch.randint(-1, 2, (1797, 9), generator=seeded()).float(), labels)


class Binarised(DividedWithoutRemainder):
    """A threshold that is meant."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.tensor(self.images[index] > 127, dtype=torch.float32), int(self.labels[index])


def test_a_threshold_is_no_truncation() -> None:
    setup = {"model": network(), "loader": DataLoader(Binarised(), 64), "loss_fn": nn.CrossEntropyLoss()}
    assert not nbdebug.diagnose(**setup, checks=["truncated-inputs"], progress=False).alarms


def test_a_raw_table_is_no_truncation() -> None:
    rows, labels = load_breast_cancer(return_X_y=True)
    assert not alarms(torch.tensor(rows, dtype=torch.float32), torch.tensor(labels))


class Blanked(Dataset[tuple[torch.Tensor, int]]):
    """Gives zeros for values that lie between 0 and 1, which no division by 255 would have been meant for."""

    def __init__(self) -> None:
        self.rows, self.labels = digit_rows()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.zeros(64), int(self.labels[index])


def test_zeros_alone_are_left_to_the_check_for_constants() -> None:
    setup = {"model": network(), "loader": DataLoader(Blanked(), 64), "loss_fn": nn.CrossEntropyLoss()}
    report = nbdebug.diagnose(**setup, checks=["truncated-inputs", "constant-inputs"], progress=False)
    assert [finding.check for finding in report.alarms] == ["constant-inputs"]
