"""Failing examples with batches of one."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import digit_images, digit_rows


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))


def setup(model: nn.Module, loader: Any) -> dict[str, Any]:
    return {"model": model, "loader": loader, "loss_fn": nn.CrossEntropyLoss()}


@failing_example("extreme-batch-size", where="1")
def one_by_one_with_batchnorm() -> dict[str, Any]:
    """Batches of one through batch normalization."""
    return setup(mlp(), DataLoader(TensorDataset(*digit_rows()), 1, shuffle=True))


@failing_example("extreme-batch-size", where="1")
def one_left_over() -> dict[str, Any]:
    """1,793 = 28 · 64 + 1: the last batch holds one sample."""
    rows, labels = digit_rows()
    return setup(mlp(), DataLoader(TensorDataset(rows[:1793], labels[:1793]), 64, shuffle=True))


@failing_example("extreme-batch-size", where="1")
def pictures_one_by_one() -> dict[str, Any]:
    """Batch normalization of one picture runs, but is none."""
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    return setup(model, DataLoader(TensorDataset(*digit_images()), 1, shuffle=True))
    # fixed: return setup(model, DataLoader(TensorDataset(*digit_images()), 32, shuffle=True))


def severities(model: nn.Module, loader: Any) -> list[str]:
    report = nbdebug.diagnose(**setup(model, loader), checks=["extreme-batch-size"], progress=False)
    return [f.severity for f in report.findings]


def test_one_by_one_without_batchnorm_is_noted_only() -> None:
    plain = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    assert severities(plain, DataLoader(TensorDataset(*digit_rows()), 1)) == ["note"]


def test_one_batch_of_everything_is_noted_only() -> None:
    assert severities(mlp(), DataLoader(TensorDataset(*digit_rows()), 1797)) == ["note"]


def test_usual_batches_are_clean() -> None:
    rows, labels = digit_rows()
    assert severities(mlp(), DataLoader(TensorDataset(rows, labels), 64)) == []
    assert severities(mlp(), DataLoader(TensorDataset(rows[:1793], labels[:1793]), 64, drop_last=True)) == []
    frozen = mlp()
    frozen[1].eval()
    assert severities(frozen, DataLoader(TensorDataset(rows[:1793], labels[:1793]), 64)) == []


def pairs(model: nn.Module) -> dict[str, Any]:
    """Return batches of two, and one sample that is left over."""
    rows, labels = digit_rows()
    return setup(model, DataLoader(TensorDataset(rows[:301], labels[:301]), 2, shuffle=True))


def test_batches_of_two_run_on_the_last_sample() -> None:
    plain = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    assert severities(plain, pairs(plain)["loader"]) == []


def test_batches_of_two_with_batchnorm_fail_on_the_last_sample() -> None:
    report = nbdebug.diagnose(**pairs(mlp()), checks=["extreme-batch-size"], progress=False)
    assert [f.severity for f in report.findings] == ["bug"] and "more than 1 value" in report.findings[0].says
