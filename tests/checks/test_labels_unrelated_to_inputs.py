"""Failing examples whose labels belong to other samples."""

from __future__ import annotations

from typing import Any

import torch
from sklearn.datasets import load_digits, make_friedman1
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.examples import failing_example
from tests.zoo.tabular import digits

CHECK = "labels-unrelated-to-inputs"


def with_adam(model: nn.Module, data: TensorDataset, loss_fn: nn.Module, lr: float = 3e-3) -> dict[str, Any]:
    """Put a set-up together."""
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    return {"model": model, "loader": DataLoader(data, 64, shuffle=True), "loss_fn": loss_fn, "optimizer": optimizer}


@failing_example(CHECK, where="loader")
def shuffled_digits() -> dict[str, Any]:
    """The labels were shuffled without the images."""
    pixels, labels = load_digits(return_X_y=True)
    images = torch.tensor(pixels, dtype=torch.float32).view(-1, 1, 8, 8) / 16
    data = TensorDataset(images, torch.tensor(labels)[torch.randperm(len(labels))])
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(576, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    return with_adam(model, data, nn.CrossEntropyLoss())


@failing_example(CHECK, where="loader")
def numbers_of_other_rows() -> dict[str, Any]:
    """A regression whose targets are off by one row."""
    rows, values = make_friedman1(900, random_state=0)
    y = torch.tensor((values - values.mean()) / values.std(), dtype=torch.float32)[:, None]
    model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    return with_adam(model, TensorDataset(torch.tensor(rows, dtype=torch.float32), y.roll(1, 0)), nn.MSELoss())
    # fixed: return with_adam(model, TensorDataset(torch.tensor(rows, dtype=torch.float32), y), nn.MSELoss())


@failing_example(CHECK, where="loader")
def masks_of_other_images() -> dict[str, Any]:
    """Segmentation masks that belong to other images."""
    pixels, _ = load_digits(return_X_y=True)
    images = torch.tensor(pixels, dtype=torch.float32).view(-1, 1, 8, 8) / 16
    masks = (images[:, 0] > 0.5).long()
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 128), nn.Unflatten(1, (2, 8, 8)))
    return with_adam(model, TensorDataset(images, masks[torch.randperm(len(masks))]), nn.CrossEntropyLoss())


def result(setup: dict[str, Any]) -> nbdebug.Result:
    """Run this check alone."""
    return nbdebug.diagnose(**setup, checks=[CHECK], progress=False).result(CHECK)


def test_digits_are_clean() -> None:
    assert result({"model": nn.Linear(64, 10), "loader": digits()}).status == "clean"


def test_parity_is_learned_by_the_model_only() -> None:
    """Simple models see nothing in the parity of four bits among eight; a network does."""
    torch.manual_seed(0)
    bits = torch.randint(0, 2, (1500, 8)).float()
    parity = bits[:, :4].sum(1).long() % 2
    model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    assert result(with_adam(model, TensorDataset(bits * 2 - 1, parity), nn.CrossEntropyLoss())).status == "clean"


def test_an_autoencoder_is_skipped() -> None:
    rows = torch.randn(300, 8)
    setup = {"model": nn.Linear(8, 8), "loader": DataLoader(TensorDataset(rows, rows), 32), "loss_fn": nn.MSELoss()}
    assert result(setup).status == "skipped"
