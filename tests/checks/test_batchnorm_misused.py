"""Failing examples whose batch normalization cannot work."""

from __future__ import annotations

from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.examples import failing_example
from tests.zoo.tabular import digits

CHECK = "batchnorm-misused"
PIXELS, LABELS = load_digits(return_X_y=True)
IMAGES = torch.tensor(PIXELS, dtype=torch.float32).view(-1, 1, 8, 8) / 16


def network(**options: Any) -> nn.Sequential:
    """A network with one batch normalization."""
    return nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32, **options), nn.ReLU(), nn.Linear(32, 10))


def on_digits(model: nn.Module, loader: Any = None) -> dict[str, Any]:
    """Put a set-up together."""
    return {"model": model, "loader": loader or digits(), "loss_fn": nn.CrossEntropyLoss()}


@failing_example(CHECK, where="1")
def momentum_zero() -> dict[str, Any]:
    """Statistics that never move."""
    return on_digits(network(momentum=0.0))  # fixed: return on_digits(network())


@failing_example(CHECK, where="1")
def momentum_as_in_keras() -> dict[str, Any]:
    """The weight of the old statistics given where that of the new ones is due."""
    return on_digits(network(momentum=0.99))


@failing_example(CHECK, where="1")
def one_image_at_a_time() -> dict[str, Any]:
    """Convolutions with batches of one image."""
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    return on_digits(model, DataLoader(TensorDataset(IMAGES, torch.tensor(LABELS)), 1, shuffle=True))


@failing_example(CHECK, where="1")
def one_sample_left_over() -> dict[str, Any]:
    """The last batch of each epoch holds a single sample."""
    rows = TensorDataset(IMAGES[:641].flatten(1), torch.tensor(LABELS[:641]))
    return on_digits(network(), DataLoader(rows, 64, shuffle=True))


class FrozenTooEarly(nn.Module):
    """A model whose normalization is put to eval mode before it has seen any data."""

    def __init__(self) -> None:
        super().__init__()
        self.body = network()
        self.train()

    def train(self, mode: bool = True) -> FrozenTooEarly:
        """Keep the normalization frozen, as for fine-tuning."""
        super().train(mode)
        self.body[1].eval()
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the body on inputs of their raw size."""
        return self.body(x * 16)


@failing_example(CHECK, where="body.1")
def frozen_from_scratch() -> dict[str, Any]:
    """Frozen statistics of 0 and 1."""
    return on_digits(FrozenTooEarly())


def report(made: dict[str, Any]) -> nbdebug.Report:
    """Run this check alone."""
    return nbdebug.diagnose(**made, checks=[CHECK], progress=False)


def test_ordinary_use_is_clean() -> None:
    assert report(on_digits(network())).result(CHECK).status == "clean"
    assert report(on_digits(network(momentum=None))).result(CHECK).status == "clean"


def test_frozen_for_fine_tuning_is_clean() -> None:
    model = FrozenTooEarly()
    with torch.no_grad():
        model.body[1].train()
        for _ in range(50):
            model(IMAGES[:128].flatten(1))
        model.body[1].eval()
    assert not report(on_digits(model)).alarms


def test_no_normalization_is_skipped() -> None:
    model = nn.Sequential(nn.Linear(64, 32), nn.LayerNorm(32), nn.Linear(32, 10))
    assert report(on_digits(model)).result(CHECK).status == "skipped"


def test_a_dropped_last_batch_is_clean() -> None:
    rows = TensorDataset(IMAGES[:641].flatten(1), torch.tensor(LABELS[:641]))
    assert report(on_digits(network(), DataLoader(rows, 64, drop_last=True))).result(CHECK).status == "clean"
