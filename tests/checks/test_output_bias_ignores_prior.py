"""Failing examples that could start at what is known."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import digit_rows, seeded, split

CHECK = "output-bias-ignores-prior"


def net(inputs: int = 64, outputs: int = 1) -> nn.Sequential:
    """Return a small network."""
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs))


def rare() -> Any:
    """Return digits with the question whether it is a seven."""
    rows, digit = digit_rows()
    return split(rows, (digit == 7).float()[:, None], batch_size=128)[0]


@failing_example(CHECK, where="2")
def rare_class() -> dict[str, Any]:
    """One in ten."""
    return {"model": net(), "loader": rare(), "loss_fn": nn.BCEWithLogitsLoss()}


@failing_example(CHECK, where="2")
def large_numbers() -> dict[str, Any]:
    """Targets around 150."""
    rows = torch.randn(512, 8, generator=seeded())
    return {"model": net(8), "loader": split(rows, 150 + 5 * rows[:, :1])[0], "loss_fn": nn.MSELoss()}
    # fixed: model = net(8)
    # fixed: nn.init.constant_(model[2].bias, 150.0)
    # fixed: return {"model": model, "loader": split(rows, 150 + 5 * rows[:, :1])[0], "loss_fn": nn.MSELoss()}


def test_is_a_note() -> None:
    """It is advice, never an alarm."""
    report = nbdebug.diagnose(net(), rare(), nn.BCEWithLogitsLoss(), checks=[CHECK], progress=False)
    assert [finding.severity for finding in report.findings] == ["note"]


def test_a_bias_that_knows() -> None:
    """With the advice followed there is nothing to say."""
    model = net()
    with torch.no_grad():
        model[2].bias.fill_(-2.2)
    report = nbdebug.diagnose(model, rare(), nn.BCEWithLogitsLoss(), checks=[CHECK], progress=False)
    assert not report.findings


def test_frequencies_of_a_small_batch_are_luck() -> None:
    """Eight samples of ten classes say nothing about frequencies."""
    loader = split(*digit_rows(), batch_size=8)[0]
    report = nbdebug.diagnose(net(outputs=10), loader, nn.CrossEntropyLoss(), checks=[CHECK], progress=False)
    assert not report.findings
