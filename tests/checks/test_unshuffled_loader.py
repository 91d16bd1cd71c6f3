"""Failing examples whose samples come ordered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import diabetes, digit_rows, seeded


def model(outputs: int = 10, inputs: int = 64) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs))


def setup(loader: Any) -> dict[str, Any]:
    return {"model": model(), "loader": loader, "loss_fn": nn.CrossEntropyLoss()}


def by_label() -> tuple[torch.Tensor, torch.Tensor]:
    rows, labels = digit_rows()
    order = labels.argsort(stable=True)
    return rows[order], labels[order]


@failing_example("unshuffled-loader", where="loader")
def folders_one_after_the_other() -> dict[str, Any]:
    """One class after the other, as an image folder gives them."""
    return setup(DataLoader(TensorDataset(*by_label()), 32))


class Files(IterableDataset[Any]):
    """Runs of one class, as one file a class gives them."""

    def __iter__(self) -> Iterator[Any]:
        rows, labels = by_label()
        for start in torch.randperm(180, generator=seeded()).tolist():
            yield from ((rows[i], labels[i]) for i in range(10 * start, min(10 * start + 10, 1797)))


@failing_example("unshuffled-loader", where="loader")
def stream_in_runs() -> dict[str, Any]:
    """Ten samples of one class at a time."""
    return setup(DataLoader(Files(), 4))


@failing_example("unshuffled-loader", where="loader")
def sorted_by_target() -> dict[str, Any]:
    """A table sorted by what is to be predicted."""
    rows, target = diabetes()
    order = target[:, 0].argsort()  # fixed: order = torch.randperm(len(target))
    return {"model": model(1, 10), "loader": DataLoader(TensorDataset(rows[order], target[order]), 32),
            "loss_fn": nn.MSELoss()}  # fmt: skip


def findings(loader: Any) -> list[str]:
    report = nbdebug.diagnose(**setup(loader), checks=["unshuffled-loader"], progress=False)
    return [f.severity for f in report.findings]


def test_shuffled_data_are_clean() -> None:
    assert findings(DataLoader(TensorDataset(*by_label()), 32, shuffle=True)) == []
    rows, labels = digit_rows()
    assert findings([(rows[i : i + 32], labels[i : i + 32]) for i in range(0, 640, 32)]) == []


def test_an_order_without_meaning_is_noted_only() -> None:
    assert findings(DataLoader(TensorDataset(*digit_rows()), 32)) == ["note"]


def test_a_series_in_its_own_time_is_noted_only() -> None:
    windows = torch.sin(torch.arange(900) / 10).unfold(0, 21, 1)
    loader = DataLoader(TensorDataset(windows[:, :20], windows[:, 20:]), 32)
    report = nbdebug.diagnose(model(1, 20), loader, nn.MSELoss(), checks=["unshuffled-loader"], progress=False)
    assert [f.severity for f in report.findings] == ["note"]


def test_one_batch_has_no_order() -> None:
    assert findings(DataLoader(TensorDataset(*digit_rows()), 1797)) == []
