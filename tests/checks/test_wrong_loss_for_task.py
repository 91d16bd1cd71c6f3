"""Failing examples with the loss of another task."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.unseen.objectives import binary_loss_for_three_kinds
from tests.zoo.samples import cancer, digit_rows, seeded, split

CHECK = "wrong-loss-for-task"


def net(*last: nn.Module, inputs: int = 64, outputs: int = 10) -> nn.Sequential:
    """Return a small network."""
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs), *last)


def labels_of_digits() -> Any:
    """Return rows with none to three labels each."""
    rows, digit = digit_rows()
    return split(rows, torch.stack([digit % 2 == 0, digit > 4, (digit == 0) | (digit == 8)], 1).float())[0]


@failing_example(CHECK, where="loss_fn")
def cross_entropy_of_one_score() -> dict[str, Any]:
    """The softmax of a single score is 1, so this loss is always 0."""
    return {
        "model": net(inputs=30, outputs=1),
        "loader": split(*cancer())[0],
        "loss_fn": nn.CrossEntropyLoss(),
    }


@failing_example(CHECK, where="loss_fn")
def squared_error_of_class_numbers() -> dict[str, Any]:
    """Digits are no quantities."""
    rows, digit = digit_rows()
    return {"model": net(outputs=1), "loader": split(rows, digit[:, None].float())[0], "loss_fn": nn.MSELoss()}
    # fixed: return {"model": net(), "loader": split(rows, digit)[0], "loss_fn": nn.CrossEntropyLoss()}


@failing_example(CHECK, where="loss_fn")
def one_winner_for_many_labels() -> dict[str, Any]:
    """Several labels are right at once."""
    return {"model": net(outputs=3), "loader": labels_of_digits(), "loss_fn": nn.CrossEntropyLoss()}


@failing_example(CHECK, where="loss_fn")
def yes_or_no_for_ten_classes() -> dict[str, Any]:
    """Class numbers up to 9 in a binary loss."""
    rows, digit = digit_rows()
    return {
        "model": net(outputs=1),
        "loader": split(rows, digit[:, None].float())[0],
        "loss_fn": nn.BCEWithLogitsLoss(),
    }


@failing_example(CHECK, where="loss_fn")
def cross_entropy_of_real_numbers() -> dict[str, Any]:
    """Three real numbers to predict, taken for shares of classes."""
    rows = torch.randn(512, 64, generator=seeded())
    return {"model": net(outputs=3), "loader": split(rows, rows[:, :3] * 2)[0], "loss_fn": nn.CrossEntropyLoss()}


def alarms(model: nn.Module, loader: Any, loss: Any) -> list[Any]:
    """Diagnose with this check only."""
    return nbdebug.diagnose(model, loader, loss, checks=[CHECK], progress=False).alarms


@pytest.mark.parametrize("levels", [5, 12])
def test_ordered_levels_are_a_regression(levels: int) -> None:
    """Ratings and counts are whole numbers whose neighbors are alike."""
    rows = torch.randn(512, 64, generator=seeded())
    level = (rows[:, 0].argsort().argsort() * levels // 512).float()[:, None]
    assert not alarms(net(outputs=1), split(rows, level)[0], nn.MSELoss())


def test_habits_that_work() -> None:
    """One-hot rows in a binary or squared loss, and 0 and 1 in a squared loss, are worth a note at most."""
    rows, digit = digit_rows()
    one_hot = split(rows, nn.functional.one_hot(digit, 10).float())[0]
    for loss in (nn.BCEWithLogitsLoss(), nn.MSELoss(), nn.CrossEntropyLoss()):
        assert not alarms(net(), one_hot, loss)
    assert not alarms(net(inputs=30, outputs=1), split(*cancer())[0], nn.MSELoss())


def test_signs_as_targets() -> None:
    """A logistic loss of -1 and 1 is no binary loss with wrong targets."""
    rows, label = cancer()
    assert not alarms(net(inputs=30, outputs=1), split(rows, 2 * label - 1)[0], nn.SoftMarginLoss())


def test_a_loss_inside_of_the_model() -> None:
    """What the model returns beside its loss may have no influence on it."""

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.loss = nn.Linear(64, 32), nn.AdaptiveLogSoftmaxWithLoss(32, 10, [4, 7])

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
            out = self.loss(self.body(x).relu(), y)
            return {"loss": out.loss, "logits": out.output}

    assert not alarms(Own(), split(*digit_rows())[0], None)


def test_many_labels_with_the_right_loss() -> None:
    """Each label is judged by itself."""
    assert not alarms(net(outputs=3), labels_of_digits(), nn.BCEWithLogitsLoss())


def test_class_indices_in_a_binary_loss_are_a_contradiction() -> None:
    """A regression of the indices may seem to learn, and the loss has no minimum."""
    torch.manual_seed(0)
    report = nbdebug.diagnose(**binary_loss_for_three_kinds(), checks=["wrong-loss-for-task"], progress=False)
    (found,) = report.findings
    assert found.is_contradiction and found.severity == "bug"
