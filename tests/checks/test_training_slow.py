"""Trainings that arrive, but late."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import nbdebug
from tests import loops
from tests.examples import failing_example
from tests.zoo.tabular import digits


@failing_example("training-slow", where="optimizer")
def small_steps() -> dict[str, Any]:
    """Plain SGD with a rate that is some times too small for the digits."""
    model = loops.mlp()
    lr = 0.02  # fixed: lr = 0.3
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


@failing_example("training-slow", where="optimizer")
def small_steps_of_adam() -> dict[str, Any]:
    """Adam with a rate that is some times too small for the digits."""
    model = loops.mlp()
    optimizer = torch.optim.Adam(model.parameters(), lr=6e-5)
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


def test_it_is_a_note() -> None:
    """Patience is all that is missing, so that it is no alarm."""
    torch.manual_seed(0)
    report = nbdebug.diagnose(**small_steps(), checks=["training-slow"], progress=False)
    assert [finding.severity for finding in report.findings] == ["note"]
