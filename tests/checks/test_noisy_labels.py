"""Failing examples with many wrong labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.examples import failing_example

CHECK = "noisy-labels"


def setup(rows: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Put a set-up together."""
    model = nn.Sequential(nn.Linear(rows.shape[1], 32), nn.ReLU(), nn.Linear(32, int(labels.max()) + 1))
    data = TensorDataset(torch.tensor(rows, dtype=torch.float32), torch.tensor(labels))
    return {"model": model, "loader": DataLoader(data, 64, shuffle=True), "loss_fn": nn.CrossEntropyLoss()}


def with_noise(labels: np.ndarray, share: float) -> np.ndarray:
    """Return so many samples another label."""
    chance = np.random.default_rng(0)
    wrong = chance.random(len(labels)) < share
    classes = int(labels.max()) + 1
    return np.where(wrong, (labels + chance.integers(1, classes, len(labels))) % classes, labels)


@failing_example(CHECK, where="loader")
def a_fifth_of_the_digits() -> dict[str, Any]:
    """Every fifth digit has a wrong label."""
    pixels, labels = load_digits(return_X_y=True)
    return setup(pixels / 16, with_noise(labels, 0.2))  # fixed: return setup(pixels / 16, labels)


@failing_example(CHECK, where="loader")
def tumours_mislabelled() -> dict[str, Any]:
    """A binary table with a quarter of the labels turned."""
    table, labels = load_breast_cancer(return_X_y=True)
    return setup((table - table.mean(0)) / table.std(0), with_noise(labels, 0.25))


def result(made: dict[str, Any]) -> nbdebug.Result:
    """Run this check alone."""
    return nbdebug.diagnose(**made, checks=[CHECK], progress=False).result(CHECK)


def test_lists_samples_that_are_wrong() -> None:
    _, labels = load_digits(return_X_y=True)
    wrong = set(np.flatnonzero(with_noise(labels, 0.2) != labels).tolist())
    listed = result(a_fifth_of_the_digits()).findings[0].evidence["indices"]
    assert sum(index in wrong for index in listed) >= 0.9 * len(listed)


def test_clean_labels_are_clean() -> None:
    pixels, labels = load_digits(return_X_y=True)
    assert result(setup(pixels / 16, labels)).status == "clean"


def test_overlapping_classes_are_clean() -> None:
    """Two clouds that overlap by a tenth: the errors lie at the border."""
    chance = np.random.default_rng(0)
    labels = chance.integers(0, 2, 1000)
    rows = chance.normal(size=(1000, 4)) + 1.28 * labels[:, None] * np.asarray([2, 0, 0, 0])
    assert result(setup(rows, labels)).status == "clean"


def test_rare_events_are_clean() -> None:
    """One in twenty, hardly predictable: clicks, faults, defaults."""
    chance = np.random.default_rng(0)
    rows = chance.normal(size=(1500, 5))
    labels = (chance.random(1500) < 1 / (1 + np.exp(3.5 - rows[:, 0]))).astype(int)
    assert result(setup(rows, labels)).status == "clean"
