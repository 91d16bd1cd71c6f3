"""Failing examples whose likelihood gets no log-probabilities."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from tests.checks.families import alarms_of
from tests.checks.likelihood_programs import LOGARITHMS, NO_LOGARITHMS
from tests.examples import failing_example
from tests.zoo.samples import digit_images, digit_rows, split

CHECK = "probabilities-into-nll"


def mlp(*last: nn.Module) -> nn.Sequential:
    """Return a small network on digits."""
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10), *last)


@failing_example(CHECK, where="3")
def probabilities_into_nll() -> dict[str, Any]:
    """The logarithm was forgotten."""
    return {"model": mlp(nn.Softmax(1)), "loader": split(*digit_rows())[0], "loss_fn": nn.NLLLoss()}


@failing_example(CHECK, where="2")
def scores_into_nll() -> dict[str, Any]:
    """The softmax was forgotten as well, and the classes are weighted."""
    return {
        "model": mlp(),
        "loader": split(*digit_rows())[0],
        "loss_fn": nn.NLLLoss(weight=torch.linspace(1, 2, 10), reduction="sum"),
    }


@failing_example(CHECK, where="2")
def pixel_scores_into_nll() -> dict[str, Any]:
    """Segmentation with raw scores."""
    images, _ = digit_images()
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 1))
    loss = nn.NLLLoss()  # fixed: loss = nn.CrossEntropyLoss()
    return {"model": model, "loader": split(images, (images[:, 0] > 0.5).long())[0], "loss_fn": loss}


@failing_example(CHECK, where="3")
def probabilities_into_divergence() -> dict[str, Any]:
    """KLDivLoss wants the logarithm of what it compares."""
    rows, labels = digit_rows()
    soft = nn.functional.one_hot(labels, 10) * 0.9 + 0.01
    loss = nn.KLDivLoss(reduction="batchmean")
    return {"model": mlp(nn.Softmax(1)), "loader": split(rows, soft)[0], "loss_fn": loss}


def status(model: nn.Module, loss: Any) -> str:
    """Diagnose with this check only."""
    report = nbdebug.diagnose(model, split(*digit_rows())[0], loss, checks=[CHECK], progress=False)
    return report.result(CHECK).status


def test_log_softmax_is_right() -> None:
    """Log-probabilities are what NLLLoss wants, whoever computes them."""
    assert status(mlp(nn.LogSoftmax(1)), nn.NLLLoss()) == "clean"


def test_a_bounded_loss_of_probabilities_is_right() -> None:
    """1 - p of the right class is robust to wrong labels."""
    assert status(mlp(nn.Softmax(1)), lambda out, y: (1 - out.gather(1, y[:, None])).mean()) == "clean"


def test_log_softmax_in_the_loss_is_right() -> None:
    """A loss that takes the log-softmax itself is a cross-entropy."""
    assert status(mlp(), lambda out, y: nn.functional.nll_loss(out.log_softmax(1), y)) == "clean"


@pytest.mark.parametrize("name", LOGARITHMS)
def test_sound_divergences_are_silent(name: str) -> None:
    assert not alarms_of(LOGARITHMS[name], CHECK)


@pytest.mark.parametrize("name", [name for name in NO_LOGARITHMS if name != "log-target"])  # which gives NaN
def test_divergences_of_probabilities_are_found(name: str) -> None:
    assert alarms_of(NO_LOGARITHMS[name], CHECK) == ["bug"]
