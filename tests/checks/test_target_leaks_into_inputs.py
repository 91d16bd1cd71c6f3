"""Failing examples whose inputs hold the answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.examples import failing_example

CHECK = "target-leaks-into-inputs"


def setup(rows: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Put a set-up together."""
    numbers = labels.dtype.kind == "f"
    target = torch.tensor(labels, dtype=torch.float32)[:, None] if numbers else torch.tensor(labels)
    data = TensorDataset(torch.tensor(rows, dtype=torch.float32), target)
    model = nn.Linear(rows.shape[1], 1 if numbers else int(labels.max()) + 1)
    loss = nn.MSELoss() if numbers else nn.CrossEntropyLoss()
    return {"model": model, "loader": DataLoader(data, 64, shuffle=True), "loss_fn": loss}


def scaled(table: np.ndarray) -> np.ndarray:
    """Return every column mean 0 and spread 1."""
    return (table - table.mean(0)) / table.std(0)


@failing_example(CHECK, where="batch[0][:, 10]")
def target_left_in_the_table() -> dict[str, Any]:
    """The measure to predict is still among the columns."""
    table, values = load_diabetes(return_X_y=True)
    return setup(np.column_stack([scaled(table), scaled(values)]), scaled(values))


@failing_example(CHECK, where="batch[0][:, 30]")
def diagnosis_code() -> dict[str, Any]:
    """A code that is given with the diagnosis, with another number for each."""
    table, labels = load_breast_cancer(return_X_y=True)
    return setup(np.column_stack([scaled(table), np.where(labels == 1, 7.0, -3.0)]), labels)


@failing_example(CHECK)
def one_hot_left_in() -> dict[str, Any]:
    """The classes are among the columns, one column each."""
    table, labels = load_wine(return_X_y=True)
    return setup(np.column_stack([scaled(table), np.eye(3)[labels]]), labels)


@failing_example(CHECK, where="batch[0][:, 0]")
def label_in_the_corner() -> dict[str, Any]:
    """A pixel in the corner of each image says which class it is."""
    pixels, labels = load_digits(return_X_y=True)
    pixels = pixels / 16
    pixels[:, 0] = labels / 10  # fixed:
    return setup(pixels, labels)


def result(made: dict[str, Any]) -> nbdebug.Result:
    """Run this check alone."""
    return nbdebug.diagnose(**made, checks=[CHECK], progress=False).result(CHECK)


def test_real_tables_are_clean() -> None:
    for load in (load_breast_cancer, load_wine, load_digits, load_diabetes):
        table, labels = load(return_X_y=True)
        assert result(setup(scaled(table + 1e-9 * np.arange(len(table))[:, None]), labels)).status == "clean"


def test_a_task_of_one_column_is_no_alarm() -> None:
    """All that there is to know is in one honest column."""
    rows = np.random.default_rng(0).normal(size=(600, 5))
    assert not [f for f in result(setup(rows, (rows[:, 2] > 0).astype(int))).findings if f.is_alarm]
    assert not [f for f in result(setup(rows, 3 * rows[:, 2] + 1)).findings if f.is_alarm]


def test_the_last_value_of_a_series_is_no_leak() -> None:
    """The next value is almost the last one; those before it know that too."""
    walk = np.sin(np.arange(1500) / 8) + 0.02 * np.random.default_rng(0).normal(size=1500)
    windows = np.stack([walk[i : i + 20] for i in range(1400)])
    assert result(setup(windows, walk[20:1420])).status == "clean"


def shops(*, without_itself: bool) -> dict[str, Any]:
    """Rows of shops with the mean answer of their shop, with the row's own answer in it or not."""
    random = np.random.default_rng(0)
    shop, columns = random.integers(0, 900, 2200), random.normal(size=(2200, 5))
    labels = (columns[:, 0] + 0.8 * columns[:, 1] + 0.6 * random.normal(size=2200) > 0).astype(int)
    train = np.arange(2200) < 1700
    total, count = (np.bincount(shop[train], w, 900) for w in (labels[train].astype(float), np.ones(train.sum())))
    own = train * without_itself
    means = (total[shop] - own * labels + 0.1) / (count[shop] - own + 0.2)
    x, y = torch.tensor(np.column_stack([columns, 2 * means - 1])).float(), torch.tensor(labels)
    parts = TensorDataset(x[train], y[train]), TensorDataset(x[~train], y[~train])
    torch.manual_seed(0)
    return {
        "model": nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2)),
        "loader": DataLoader(parts[0], 50, shuffle=True),
        "val_loader": DataLoader(parts[1], 100),
        "loss_fn": nn.CrossEntropyLoss(),
    }


@failing_example(CHECK, where="batch[0][:, 5]")
def mean_of_targets_with_its_own() -> dict[str, Any]:
    """Target encoding without folds: shops have two or three rows."""
    return shops(without_itself=False)  # fixed: return shops(without_itself=True)


def test_a_later_split_with_other_values_is_no_leak() -> None:
    """A column that rises with time predicts the target, and a tree knows nothing about later values."""
    random, time = np.random.default_rng(0), np.linspace(0, 1, 1600)
    rows = np.column_stack([time, random.normal(size=(1600, 3))])
    wanted = np.sin(9 * time) + 0.5 * rows[:, 1] + 0.1 * random.normal(size=1600)
    x, y = torch.tensor(rows).float(), torch.tensor(wanted).float()[:, None]
    torch.manual_seed(0)
    found = {
        "model": nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1)),
        "loader": DataLoader(TensorDataset(x[:1200], y[:1200]), 50, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1200:], y[1200:]), 100),
        "loss_fn": nn.MSELoss(),
    }
    assert not [f for f in result(found).findings if f.is_alarm]
