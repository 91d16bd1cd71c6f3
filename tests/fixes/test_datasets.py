"""Fixes of the data on wrapped data sets: what they leave out, and that the user's own stays as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import nbdebug
from nbdebug.core.remedy import Patch, Remedy
from nbdebug.errors import NotApplicable
from nbdebug.setup import Setup

X = torch.randn(200, 5, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] + 0.3 * X[:, 1] > 0).long()


def setup(train: Any, val: Any = None) -> Setup:
    """Return a linear classifier over these samples."""
    val_loader = DataLoader(TensorDataset(*val), 20) if val is not None else None
    return Setup(nn.Linear(5, 2), DataLoader(train, 20), nn.CrossEntropyLoss(), val_loader=val_loader)


def inputs(made: Setup, feed: Any = None) -> torch.Tensor:
    """Return all inputs of a feed."""
    return torch.cat([raw[0] for raw in (feed or made.feed)])


def fixed(made: Setup, patch: str, /, **settings: Any) -> Setup:
    """Apply one patch."""
    return Remedy("", "", Patch(patch, settings)).apply(made)


def test_copies_are_removed() -> None:
    made = setup(TensorDataset(torch.cat([X, X[:50]]), torch.cat([Y, Y[:50]])))
    assert torch.equal(inputs(fixed(made, "remove-copies")), X)
    assert len(inputs(made)) == 250


def test_samples_of_another_split_are_removed() -> None:
    made = setup(TensorDataset(X, Y), (X[150:], Y[150:]))
    assert torch.equal(inputs(fixed(made, "remove-copies", split="val_loader")), X[:150])


def test_a_column_is_removed_from_every_split() -> None:
    made = setup(TensorDataset(X, Y), (X, Y))
    other = fixed(made, "remove-columns", columns=["batch[0][:, 2]"])
    for feed in (other.feed, other.val_feed):
        assert not inputs(other, feed)[:, 2].any()
        assert torch.equal(inputs(other, feed)[:, [0, 1, 3, 4]], X[:, [0, 1, 3, 4]])
    with pytest.raises(NotApplicable, match="no columns"):
        fixed(made, "remove-columns", columns=["batch[0] (averaged)"])


def test_one_split_is_scaled() -> None:
    made = setup(TensorDataset(X, Y), (10 * X, Y))
    other = fixed(made, "scale-split", split="val_loader", name="batch[0]", factor=0.1)
    assert torch.allclose(inputs(other, other.val_feed), X, atol=1e-6)
    assert torch.equal(inputs(other), X)


class Halving(Dataset[Any]):
    def __init__(self) -> None:
        self.rows = X.numpy().copy()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        row = self.rows[index]
        row /= 2
        return row, int(Y[index])


def test_reading_changes_nothing_any_more() -> None:
    data = Halving()
    other = fixed(setup(data), "copy-samples")
    assert torch.equal(inputs(other), X / 2)
    assert torch.equal(inputs(other), X / 2)
    assert np.array_equal(data.rows, X.numpy())


def test_the_fixes_are_proven() -> None:
    """A column that gives the target away: leaving it out makes the task harder, and is the fix all the same."""
    labels = (X[:, 0] + torch.randn(200, generator=torch.Generator().manual_seed(1)) > 0).long()
    column = labels.float() + 0.01 * X[:, 4]
    train = TensorDataset(torch.cat([X[:, :4], column[:, None]], 1), labels)
    report = nbdebug.diagnose(
        nn.Linear(5, 2),
        DataLoader(train, 20, shuffle=True),
        nn.CrossEntropyLoss(),
        checks=["target-leaks-into-inputs"],
        progress=False,
    )
    finding = next(f for f in report.findings if f.where == "batch[0][:, 4]")
    assert finding.verify(progress=False).verified, finding.verifications


def test_looking_for_copies_draws_no_random_numbers() -> None:
    made = setup(TensorDataset(X, Y))
    before = torch.get_rng_state()
    fixed(made, "remove-copies")
    assert torch.equal(torch.get_rng_state(), before)


def test_one_split_is_scaled_and_shifted() -> None:
    made = setup(TensorDataset(X, Y), (10 * X + 3, Y))
    other = fixed(made, "scale-split", split="val_loader", name="batch[0]", factor=0.1, shift=-0.3)
    assert torch.allclose(inputs(other, other.val_feed), X, atol=1e-6)
