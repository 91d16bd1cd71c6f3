"""Failing examples whose validation data do not look like the training data."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.checks.test_split_leakage import Digits, Subset, rolled
from tests.examples import failing_example

CHECK = "split-shift"
ORDER = torch.randperm(1797, generator=torch.Generator().manual_seed(0))
TABLE, ANSWERS = load_breast_cancer(return_X_y=True)


def images() -> tuple[torch.Tensor, torch.Tensor]:
    """Digits between 0 and 1, and their labels, in random order."""
    pixels, labels = load_digits(return_X_y=True)
    return torch.tensor(pixels, dtype=torch.float32).view(-1, 1, 8, 8)[ORDER] / 16, torch.tensor(labels)[ORDER]


def loaders(train: Any, val: Any, model: nn.Module | None = None) -> dict[str, Any]:
    """Put a set-up together."""
    return {
        "model": model or nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)),
        "loader": DataLoader(train, 64, shuffle=True),
        "val_loader": DataLoader(val, 64),
        "loss_fn": nn.CrossEntropyLoss(),
    }


@failing_example(CHECK, where="val_loader")
def division_forgotten() -> dict[str, Any]:
    """Training images lie between 0 and 1, validation images between 0 and 16."""
    x, y = images()
    return loaders(TensorDataset(x[:1400], y[:1400]), TensorDataset(x[1400:] * 16, y[1400:]))


@failing_example(CHECK, where="val_loader")
def normalized_on_one_side() -> dict[str, Any]:
    """Only the training images had their mean subtracted and were divided by their spread."""
    x, y = images()
    return loaders(TensorDataset((x[:1400] - 0.3) / 0.2, y[:1400]), TensorDataset(x[1400:], y[1400:]))


@failing_example(CHECK, where="val_loader")
def split_without_shuffling() -> dict[str, Any]:
    """The data are sorted by label, and the last fifth is the validation set."""
    x, y = images()
    order = torch.argsort(y, stable=True)
    x, y = x[order], y[order]
    return loaders(TensorDataset(x[:1400], y[:1400]), TensorDataset(x[1400:], y[1400:]))


@failing_example(CHECK, where="val_loader")
def table_left_raw() -> dict[str, Any]:
    """The training table is scaled, the validation table is not."""
    order = np.random.default_rng(0).permutation(len(ANSWERS))
    raw, answers = TABLE[order], torch.tensor(ANSWERS[order])
    scaled = (raw - raw[:400].mean(0)) / raw[:400].std(0)
    train, val = torch.tensor(scaled[:400]).float(), torch.tensor(raw[400:]).float()
    # fixed: train, val = torch.tensor(scaled[:400]).float(), torch.tensor(scaled[400:]).float()
    model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 2))
    return loaders(TensorDataset(train, answers[:400]), TensorDataset(val, answers[400:]), model)


@failing_example(CHECK, where="val_loader")
def colors_reversed() -> dict[str, Any]:
    """One side reads RGB and the other BGR."""
    x, y = images()
    color = torch.cat([x + 0.1, 0.8 * x, 0.5 * x], 1)
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 32), nn.ReLU(), nn.Linear(32, 10))
    return loaders(TensorDataset(color[:1400], y[:1400]), TensorDataset(color[1400:].flip(1), y[1400:]), model)


def report(setup: dict[str, Any]) -> nbdebug.Report:
    """Run this check alone."""
    return nbdebug.diagnose(**setup, checks=[CHECK], progress=False)


def test_random_splits_are_clean() -> None:
    for seed in range(3):
        order = torch.randperm(1797, generator=torch.Generator().manual_seed(seed))
        x, y = (part[order] for part in images())
        assert report(loaders(TensorDataset(x[:1400], y[:1400]), TensorDataset(x[1400:], y[1400:]))).findings == []


def test_augmented_training_data_are_clean() -> None:
    order = ORDER.tolist()
    assert not report(loaders(Subset(Digits(rolled), order[:1400]), Subset(Digits(), order[1400:]))).alarms


def test_heavy_tails_in_a_raw_table_are_clean() -> None:
    chance = np.random.default_rng(0)
    table = torch.tensor(np.exp(2 * chance.normal(size=(600, 8)))).float()
    answers = torch.tensor(chance.integers(0, 2, 600))
    setup = loaders(
        TensorDataset(table[:450], answers[:450]), TensorDataset(table[450:], answers[450:]), nn.Linear(8, 2)
    )
    assert not report(setup).alarms


def test_a_balanced_training_set_is_no_alarm() -> None:
    x, y = images()
    rare = (y != 3) | (torch.arange(len(y)) % 4 == 0)
    assert not report(loaders(TensorDataset(x[:1400], y[:1400]), TensorDataset(x[rare][1200:], y[rare][1200:]))).alarms
