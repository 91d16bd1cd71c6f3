"""Failing examples that apply the sigmoid twice."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import cancer, digit_rows, split

CHECK = "sigmoid-before-bce-with-logits"


def net(*last: nn.Module, inputs: int = 30, outputs: int = 1) -> nn.Sequential:
    """Return a small network."""
    return nn.Sequential(nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, outputs), *last)


class ByHand(nn.Module):
    """Labels of digits: even, above four, round; squashed by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.body = net(inputs=64, outputs=3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return one value between 0 and 1 for each label."""
        return 1 / (1 + torch.exp(-self.body(x)))


def labels_of_digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows with three labels each."""
    rows, digit = digit_rows()
    return rows, torch.stack([digit % 2 == 0, digit > 4, (digit == 0) | (digit == 8)], 1).float()


@failing_example(CHECK, where="3")
def sigmoid_layer() -> dict[str, Any]:
    """The classic."""
    return {"model": net(nn.Sigmoid()), "loader": split(*cancer())[0], "loss_fn": nn.BCEWithLogitsLoss()}
    # fixed: return {"model": net(), "loader": split(*cancer())[0], "loss_fn": nn.BCEWithLogitsLoss()}


@failing_example(CHECK, where="model")
def sigmoid_by_hand_for_many_labels() -> dict[str, Any]:
    """Written with exp and a division, and positive labels weighted."""
    loss = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 1.0, 4.0]))
    return {"model": ByHand(), "loader": split(*labels_of_digits())[0], "loss_fn": loss}


@failing_example(CHECK, where="compute_loss")
def sigmoid_in_the_loss() -> dict[str, Any]:
    """The function that computes the loss squashes first."""

    def compute(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        return loss_fn(torch.sigmoid(model(batch[0])), batch[1])

    return {
        "model": net(),
        "loader": split(*cancer())[0],
        "loss_fn": nn.BCEWithLogitsLoss(),
        "compute_loss": compute,
    }


@pytest.mark.parametrize(
    ("last", "loss"),
    [((), nn.BCEWithLogitsLoss()), ((nn.Sigmoid(),), nn.BCELoss()), ((nn.Sigmoid(),), nn.MSELoss())],
)
def test_one_sigmoid_is_right(last: tuple[nn.Module, ...], loss: Any) -> None:
    """Once is enough, in the model or in the loss."""
    report = nbdebug.diagnose(net(*last), split(*cancer())[0], loss, checks=[CHECK], progress=False)
    assert not report.findings
