"""What the extension offers to pick from: found by type, with shapes, and nothing is run for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from nbdebug.integrations.lab.candidates import candidates


class Untouchable(Dataset[Any]):
    """A data set that must not be read."""

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> Any:
        raise AssertionError("it was read")


class StreamLoader:
    """A loader of some other library."""

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("it was iterated")

    def __len__(self) -> int:
        raise RuntimeError("no length yet")


class FocalLoss(nn.Module):
    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return (output - target).pow(2).mean()


def names(found: dict[str, list[dict[str, str]]], role: str) -> list[str]:
    return [item["name"] for item in found[role]]


def test_each_thing_is_offered_for_its_role_with_its_shapes() -> None:
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    data = TensorDataset(torch.zeros(20, 64), torch.zeros(20, dtype=torch.long))
    found = candidates(
        {
            "x": torch.zeros(3),
            "model": model,
            "Model": nn.Linear,
            "criterion": nn.CrossEntropyLoss(),
            "focal": FocalLoss(),
            "my_loss": lambda output, target: 0,
            "log_loss_value": 0.3,
            "loader": DataLoader(data, 8),
            "batches": [(torch.zeros(4, 64), torch.zeros(4))],
            "numbers": [1, 2, 3],
            "optimizer": torch.optim.Adam(model.parameters(), lr=0.01),
        }
    )
    assert found["model"] == [
        {"name": "model", "text": "Sequential, 2,410 parameters, weights (32, 64) … (10, 32)"},
    ]
    assert names(found, "loss_fn") == ["criterion", "focal", "my_loss"]
    assert [item["text"] for item in found["loader"]] == [
        "DataLoader, 20 samples in batches of 8, (20, 64) float32 and (20,) int64",
        "list of 1 batches, the first (4, 64) float32 and (4,) float32",
    ]
    assert found["optimizer"] == [{"name": "optimizer", "text": "Adam, lr 0.01, 4 tensors"}]


def test_the_model_that_is_trained_and_the_loader_to_train_on_come_first() -> None:
    backbone = nn.Linear(4, 400)
    model = nn.Sequential(backbone, nn.Linear(400, 2))
    teacher = nn.Linear(4, 9000)
    data = Untouchable()
    found = candidates(
        {
            "teacher": teacher,
            "backbone": backbone,
            "model": model,
            "val_loader": DataLoader(data),
            "train_loader": DataLoader(data),
            "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        }
    )
    assert names(found, "model") == ["model", "backbone", "teacher"]
    assert names(found, "loader") == ["train_loader", "val_loader"]


def test_nothing_is_read_and_what_cannot_be_described_keeps_its_type() -> None:
    found = candidates({"loader": DataLoader(Untouchable()), "stream": StreamLoader()})
    assert found["loader"][0]["text"] == "DataLoader, 5 samples in batches of 1, Untouchable"
    assert found["loader"][1] == {"name": "stream", "text": "StreamLoader"}
