"""The simple model for each kind of data really learns, and its code runs."""

from __future__ import annotations

import pytest
import torch
from sklearn.datasets import load_diabetes, load_wine
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from nbdebug.improve.starting import Starter
from tests.improve.digits import loader_of, pixels


def run(starter: Starter, inputs: torch.Tensor, targets: torch.Tensor) -> None:
    """Run the code that the starter gives, as a user would."""
    names = {"inputs": inputs.float() if inputs.is_floating_point() else inputs, "loader": [(inputs, targets)]}
    exec(starter.code, names)
    assert torch.isfinite(names["loss"])  # type: ignore[arg-type]


def test_images() -> None:
    x, y = pixels()
    images = x.reshape(-1, 1, 8, 8)
    starter = nbdebug.starter(loader_of(images[:600], y[:600]), seconds=300, progress=False)
    assert starter.kind == "a LeNet-like network" and starter.error < 0.4 < starter.chance
    run(starter, images[:32], y[:32])


def test_table() -> None:
    x, y = load_wine(return_X_y=True)
    rows, classes = torch.tensor(x, dtype=torch.float32), torch.tensor(y)
    starter = nbdebug.starter(loader_of(rows, classes), seconds=300, progress=False)
    assert starter.kind == "one hidden layer" and starter.error < 0.2 < starter.chance
    run(starter, rows[:32], classes[:32])


def test_regression_answers_in_the_targets_units() -> None:
    x, y = load_diabetes(return_X_y=True)
    rows, values = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)[:, None]
    starter = nbdebug.starter(loader_of(rows, values), seconds=300, progress=False)
    assert starter.error < 0.8 * starter.chance
    run(starter, rows[:32], values[:32])


def test_tokens_and_series() -> None:
    torch.manual_seed(0)
    tokens = torch.randint(1, 20, (400, 8))
    has = (tokens == 7).any(1).long()
    starter = nbdebug.starter(loader_of(tokens, has), seconds=300, progress=False)
    assert starter.kind == "an LSTM" and starter.error < starter.chance
    run(starter, tokens[:32], has[:32])
    series = torch.randn(200, 8, 3).cumsum(1)
    up = (series[:, -1, 0] > 0).long()
    starter = nbdebug.starter(loader_of(series, up), seconds=300, progress=False)
    assert starter.kind == "an LSTM" and starter.error < starter.chance
    run(starter, series[:32], up[:32])


def test_moves_no_random_number() -> None:
    x, y = pixels()
    loader = DataLoader(TensorDataset(x[:200], y[:200]), 32, shuffle=True)
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    nbdebug.starter(loader, seconds=1, progress=False)
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("batches", [[], [(torch.zeros(2, 3),)]], ids=["empty", "no-target"])
def test_bad_input(batches: list[object]) -> None:
    with pytest.raises(nbdebug.BadInput):
        nbdebug.starter(batches, seconds=1, progress=False)
