"""Failing examples that forget in eval mode what they have learned."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.zoo.tabular import digits

CHECK = "train-eval-gap"


def setup(model: nn.Module, lr: float = 3e-3) -> dict[str, Any]:
    """Put a set-up together."""
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


class OtherWay(nn.Module):
    """A branch on the mode that leaves out a layer in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(64, 32), nn.Linear(32, 32), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Use the middle layer in training only."""
        hidden = self.first(x).relu()
        if self.training:
            hidden = self.middle(hidden).relu()
        return self.last(hidden)


@failing_example(CHECK, where="last")
def layer_left_out() -> dict[str, Any]:
    """In eval mode a layer is left out."""
    return setup(OtherWay())


@failing_example(CHECK, where="1")
def statistics_that_crawl() -> dict[str, Any]:
    """A momentum so small that the statistics never arrive."""
    model = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32, momentum=1e-5), nn.ReLU(), nn.Linear(32, 10))
    # fixed: model = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))
    nn.init.constant_(model[0].bias, 6.0)
    return setup(model)


def report(made: dict[str, Any]) -> nbdebug.Report:
    """Run this check alone."""
    return nbdebug.diagnose(**made, checks=[CHECK], progress=False)


def test_batchnorm_and_dropout_are_clean() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 10))
    assert not report(setup(model)).alarms


def test_a_high_rate_is_clean() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))
    assert not report(setup(model, lr=0.03)).alarms


def test_no_modes_is_skipped() -> None:
    assert report(setup(nn.Sequential(nn.Linear(64, 10)))).result(CHECK).status == "skipped"


def test_a_trained_model_with_stale_statistics_is_found() -> None:
    torch.manual_seed(0)
    made = setup(nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10)))
    for _ in range(10):
        for x, y in made["loader"]:
            made["optimizer"].zero_grad()
            nn.functional.cross_entropy(made["model"](x), y).backward()
            made["optimizer"].step()
    assert not report(made).alarms
    made["model"][1].running_mean += 3 * made["model"][1].running_var.sqrt() * torch.randn(64).sign()
    assert report(made).alarms
