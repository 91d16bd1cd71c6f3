"""Trainings that do not learn what can be learned."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from tests import loops
from tests.examples import failing_example
from tests.zoo.tabular import digits


@failing_example("training-fails", where=("train_step", "model"))
def step_without_effect() -> dict[str, Any]:
    """The learning rate is a millionth, so that nothing is learned in any number of steps."""
    model = loops.mlp()
    lr = 1e-6  # fixed: lr = 0.1
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


@failing_example("training-fails", where=("train_step", "model"))
def another_model_is_trained() -> dict[str, Any]:
    """The step trains a model of its own, whatever it is given."""
    model, other = loops.mlp(), loops.mlp()
    optimizer = torch.optim.Adam(other.parameters(), lr=1e-3)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = loss_fn(other(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss

    return {
        "model": model,
        "loader": digits(),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "train_step": step,
    }


@pytest.mark.parametrize("rate", [1e-4, 1e-3, 1e-2])
def test_what_learns_does_not_fail(rate: float) -> None:
    """Adam learns the digits with each of these rates."""
    report = nbdebug.diagnose(**loops.setup(None, rate), checks=["training-fails"], progress=False)
    assert report.result("training-fails").status == "clean"


def test_what_nobody_learns_is_no_failure() -> None:
    """Labels that have nothing to do with the inputs fail for everybody, so that the training cannot be blamed."""
    from torch.utils.data import DataLoader, TensorDataset

    inputs, labels = torch.randn(640, 16), torch.randint(4, (640,))
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = DataLoader(TensorDataset(inputs, labels), 32, shuffle=True)
    made = {"model": model, "loader": loader, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}
    report = nbdebug.diagnose(**made, checks=["training-fails"], progress=False)
    assert report.result("training-fails").status == "clean"
