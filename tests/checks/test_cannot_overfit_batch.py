"""Models that cannot learn sixteen samples by heart, in each of the ways it fails."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.checks.optimization.cannot_overfit_batch import CAUSES
from nbdebug.evidence.overfit_one_batch import STEPS, Overfit
from nbdebug.experiments.train_briefly import judge
from tests import loops
from tests.examples import failing_example
from tests.zoo.tabular import digits


@failing_example("cannot-overfit-batch", where="model")
def flipped_sign() -> dict[str, Any]:
    """The loss falls without end while the model gets worse, or rises: here it is maximized."""
    cross = nn.CrossEntropyLoss()
    model = loops.mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, maximize=True)
    # fixed: optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return {"model": model, "loader": digits(), "loss_fn": cross, "optimizer": optimizer}


@failing_example("cannot-overfit-batch", where="model")
def blind_model() -> dict[str, Any]:
    """The input is multiplied away, so nothing about a sample can be known."""

    class Blind(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = loops.mlp()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x * 0)

    return {"model": Blind(), "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


@pytest.mark.parametrize(
    ("losses", "outcome"),
    [
        ([2.3 * 0.9**step for step in range(60)], "memorized"),
        ([2.3 - 0.01 * step for step in range(60)], "falling"),
        ([2.3 - 0.001 * (step % 2) for step in range(60)], "plateaus"),
        ([2.3 + 0.05 * step for step in range(60)], "rises"),
        ([2.3 * 1.5**step for step in range(60)], "explodes"),
        ([2.3, *[0.4 + 2.0 * (step % 2) for step in range(59)]], "oscillates"),
        ([2.3, 2.2, math.nan], "not-finite"),
        ([-1.0 - 0.05 * step for step in range(60)], "falling"),
        ([-0.9 * (1 - 0.9**step) + 0.02 * (step % 2) for step in range(60)], "falling"),  # begins at zero, and wobbles
        ([0.05, *[0.4 * (-1) ** step for step in range(59)]], "oscillates"),
    ],
)
def test_names_the_way_it_goes(losses: list[float], outcome: str) -> None:
    """The ways of going and failing are told apart, also for losses below zero."""
    assert judge(losses, None) == outcome


def descent(rate: float, **options: Any) -> dict[str, Any]:
    """Return the plain network on digits with gradient descent at this rate."""
    return loops.setup(None, rate, torch.optim.SGD, **options)


def overshooting() -> dict[str, Any]:
    """Return a line whose steps, always of one size, jump over the target and back."""
    model = nn.Linear(64, 1)
    pairs = [(x, y.float()[:, None]) for x, y in digits()]
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
    return {"model": model, "loader": pairs, "loss_fn": nn.L1Loss(), "optimizer": optimizer}


@pytest.mark.parametrize(
    ("make", "outcome", "most"),
    [
        (lambda: descent(0.01, maximize=True), "rises", 150),
        (lambda: descent(1000.0), "explodes", 20),  # clear at once: the other steps are spared
        (overshooting, "oscillates", 150),
        (lambda: descent(1e-6), "plateaus", 150),
    ],
)
def test_each_way_it_fails_is_seen_in_a_real_training(make: Any, outcome: str, most: int) -> None:
    """The finding names the way, with causes of its own, and the training ends when that is clear."""
    report = nbdebug.diagnose(**make(), checks=["cannot-overfit-batch"], progress=False)
    finding = report.findings[0]
    assert finding.evidence["outcome"] == outcome and CAUSES[outcome] in finding.says
    assert finding.evidence["steps"] <= most
    assert len({CAUSES[way] for way in ("rises", "explodes", "oscillates", "plateaus")}) == 4


def test_a_batch_that_is_learned_ends_the_training() -> None:
    """As soon as the batch is known by heart, no further step is taken."""
    session = nbdebug.Session(nbdebug.Setup(**loops.setup(None, 1e-2)))
    curve = session.gather(Overfit).curve
    assert curve.outcome == "memorized" and len(curve.losses) < STEPS / 2


@pytest.mark.parametrize("features", [2, 10])
def test_small_linear_models_are_no_bug(features: int) -> None:
    """A linear model cannot fit sixteen noisy targets, and is healthy."""
    torch.manual_seed(0)
    x = torch.randn(64, features)
    y = x.sum(1, keepdim=True) + torch.randn(64, 1)
    model = nn.Linear(features, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    report = nbdebug.diagnose(model, [(x, y)], nn.MSELoss(), optimizer, checks=["cannot-overfit-batch"], progress=False)
    assert not report.alarms
