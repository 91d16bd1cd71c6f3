"""Failing examples with little data; all of this is only noted."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import digit_rows


def setup(count: int, width: int = 32) -> dict[str, Any]:
    rows, labels = digit_rows()
    model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))
    loader = DataLoader(TensorDataset(rows[:count], labels[:count]), 32, shuffle=True)
    return {"model": model, "loader": loader, "loss_fn": nn.CrossEntropyLoss()}


@failing_example("too-few-examples", where="loader")
def forty_samples() -> dict[str, Any]:
    """Four samples a class."""
    return setup(40)  # fixed: return setup(1797)


@failing_example("too-few-examples", where="loader")
def a_large_model_for_little_data() -> dict[str, Any]:
    """Three million parameters for 200 samples."""
    return setup(200, 40_000)


@failing_example("too-few-examples", where="batch[1]")
def one_class_with_three_samples() -> dict[str, Any]:
    """Plenty of samples, but three of one class."""
    rows, labels = digit_rows()
    keep = torch.cat([(labels != 3).nonzero().flatten(), (labels == 3).nonzero().flatten()[:3]])
    loader = DataLoader(TensorDataset(rows[keep], labels[keep]), 32, shuffle=True)
    return setup(1797) | {"loader": loader}


def test_it_is_never_an_alarm_and_plenty_is_clean() -> None:
    for count in (40, 1797):
        report = nbdebug.diagnose(**setup(count), checks=["too-few-examples"], progress=False)
        assert not report.alarms
    assert report.result("too-few-examples").status == "clean"
