"""Failing examples whose weights are pulled to zero."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.zoo.tabular import digits


def setup(make: Any, model: nn.Module | None = None) -> dict[str, Any]:
    """Train on digits with the optimizer that the function makes."""
    model = model or nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    return {
        "model": model,
        "loader": digits(),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": make(model.parameters()),
    }


@failing_example("excessive-weight-decay", where="optimizer")
def sgd_pulled_to_zero() -> dict[str, Any]:
    """SGD with a decay of 0.5."""
    return setup(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.5))
    # fixed: return setup(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-4))


@failing_example("excessive-weight-decay", where="optimizer")
def decay_through_adam() -> dict[str, Any]:
    """Adam with a decay that AdamW would bear."""
    return setup(lambda p: torch.optim.Adam(p, lr=3e-3, weight_decay=0.3))


@failing_example("excessive-weight-decay", where="optimizer")
def adamw_pulled_to_zero() -> dict[str, Any]:
    """AdamW with a decay of 50 on a convolutional network."""
    model = nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(576, 10)
    )  # fmt: skip
    return setup(lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=50.0), model)


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=5e-4),
        lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=5e-3),
        lambda p: torch.optim.Adam(p, lr=1e-3, weight_decay=1e-4),
        lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=0.1),
        lambda p: torch.optim.AdamW(p, lr=3e-3, weight_decay=0.01),
    ],
)
def test_usual_decay_is_silent(make: Any) -> None:
    """What everybody uses."""
    report = nbdebug.diagnose(**setup(make), checks=["excessive-weight-decay"], progress=False)
    assert report.results[0].status == "clean", report.findings
