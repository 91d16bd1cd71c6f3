"""Failing examples that drop almost everything."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.zoo.tabular import digits


def setup(model: nn.Module) -> dict[str, Any]:
    """Look at digits."""
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


def dropping(p: float) -> nn.Sequential:
    """Return a network with one dropout."""
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(p), nn.Linear(64, 10))


class ByFunction(nn.Module):
    """Dropout without a module, on channels."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.conv, self.last, self.p = nn.Conv2d(1, 32, 3), nn.Linear(1152, 10), p

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Drop whole channels."""
        x = self.conv(x.unflatten(1, (1, 8, 8))).relu()
        return self.last(nn.functional.dropout2d(x, self.p, self.training).flatten(1))


@failing_example("excessive-dropout", where="2")
def keep_and_drop_confused() -> dict[str, Any]:
    """0.9 was meant to be kept."""
    return setup(dropping(0.9))


@failing_example("excessive-dropout", where="last")
def channels_by_function() -> dict[str, Any]:
    """A function drops 95 of 100 channels before the last layer."""
    return setup(ByFunction(0.95))


@failing_example("excessive-dropout", where="2")
def alpha_dropout() -> dict[str, Any]:
    """Dropped values need not be zero."""
    return setup(nn.Sequential(nn.Linear(64, 64), nn.SELU(), nn.AlphaDropout(0.85), nn.Linear(64, 10)))
    # fixed: return setup(nn.Sequential(nn.Linear(64, 64), nn.SELU(), nn.AlphaDropout(0.1), nn.Linear(64, 10)))


class Twice(nn.Module):
    """Two calls of dropout as a function, the second behind a view and a copy."""

    def __init__(self, first: float, second: float) -> None:
        super().__init__()
        self.a, self.b, self.c, self.p = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10), (first, second)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Drop before b and before c."""
        x = self.b(nn.functional.dropout(self.a(x).relu(), self.p[0], self.training))
        return self.c(nn.functional.dropout(x.relu(), self.p[1], self.training).unflatten(1, (8, 8)).flatten(1) * 2)


def blocks(*shares: float) -> nn.Sequential:
    """Return a network with a dropout in each of its blocks."""
    parts = [nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(p), nn.Flatten()) for p in shares]
    return nn.Sequential(*parts, nn.Linear(64, 10))


def named(model: nn.Module) -> list[tuple[str, str]]:
    """Return the places that the check names, and how sure it is."""
    report = nbdebug.diagnose(**setup(model), checks=["excessive-dropout"], progress=False)
    return [(finding.where, finding.severity) for finding in report.results[0].findings]


def test_every_place_is_judged() -> None:
    """What is dropped before a place neither hides it nor makes it be told twice."""
    assert named(blocks(0.77, 0.95)) == [("1.2", "suspect")]
    assert named(blocks(0.95, 0.3, 0.85)) == [("0.2", "suspect"), ("2.2", "suspect")]
    assert named(nn.Sequential(nn.Dropout(0.75), nn.Dropout(0.3), nn.Linear(64, 10))) == [("1", "suspect")]
    assert named(Twice(0.77, 0.95)) == [("c", "suspect")]
    assert named(Twice(0.95, 0.95)) == [("b", "suspect"), ("c", "suspect")]


def status(model: nn.Module) -> str:
    """Run the check alone."""
    return nbdebug.diagnose(**setup(model), checks=["excessive-dropout"], progress=False).results[0].status


def test_usual_dropout_is_silent() -> None:
    """A half, also on channels and twice in a row."""
    twice = nn.Sequential(
        nn.Dropout(0.2), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.5), nn.Dropout(0.3), nn.Linear(64, 10)
    )
    for model in (dropping(0.5), ByFunction(0.5), twice, dropping(0.0)):
        assert status(model) == "clean"
