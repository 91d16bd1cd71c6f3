"""Folds give an honest error where a single small validation set would not."""

from __future__ import annotations

import copy

import pytest
import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

import nbdebug
from tests.improve.digits import loader_of


def rows() -> tuple[torch.Tensor, torch.Tensor]:
    x, y = load_breast_cancer(return_X_y=True)
    inputs = torch.tensor(x, dtype=torch.float32)[:200]
    return (inputs - inputs.mean(0)) / inputs.std(0), torch.tensor(y)[:200]


def test_small_data() -> None:
    x, y = rows()
    model = nn.Sequential(nn.Linear(30, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    before = copy.deepcopy(model.state_dict())
    folds = nbdebug.k_fold(model, loader_of(x, y, 32), nn.CrossEntropyLoss(), optimizer, k=4, epochs=8, progress=False)
    assert len(folds.errors) == 4 and folds.mean < 0.15 and folds.interval[0] <= folds.mean <= folds.interval[1]
    assert max(folds.trained) < 0.1 and not folds.notes
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert not optimizer.state


def test_labels_at_random_stay_unlearned_on_held_folds() -> None:
    """A model that is not started afresh would know the held fold from the fold before."""
    x, _ = rows()
    y = torch.randint(0, 2, (200,), generator=torch.Generator().manual_seed(0))
    model = nn.Sequential(nn.Linear(30, 128), nn.ReLU(), nn.Linear(128, 2))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    folds = nbdebug.k_fold(model, loader_of(x, y, 32), nn.CrossEntropyLoss(), optimizer, k=4, epochs=20, progress=False)
    assert max(folds.trained) < 0.3 and 0.35 < folds.mean < 0.65


def test_says_what_did_not_start_afresh() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(30, 2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.weight

    x, y = rows()
    folds = nbdebug.k_fold(Own(), loader_of(x, y, 32), nn.CrossEntropyLoss(), k=2, epochs=1, progress=False)
    assert "Own" in folds.notes[0]
    own = nbdebug.k_fold(
        Own(), loader_of(x, y), k=2, epochs=1, reset=lambda model: nn.init.zeros_(model.weight), progress=False
    )
    assert not own.notes


@pytest.mark.parametrize("k", [1, 1000, "five"])
def test_bad_k(k: object) -> None:
    x, y = rows()
    with pytest.raises(nbdebug.BadInput, match="k_fold"):
        nbdebug.k_fold(nn.Linear(30, 2), loader_of(x, y), k=k)  # type: ignore[arg-type]


def test_no_index() -> None:
    x, y = rows()
    with pytest.raises(nbdebug.BadInput, match="index its samples"):
        nbdebug.k_fold(nn.Linear(30, 2), [(x, y)])
