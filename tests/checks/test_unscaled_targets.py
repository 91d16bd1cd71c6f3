"""Failing examples whose targets are out of reach."""

from __future__ import annotations

from typing import Any

import torch
from sklearn.datasets import load_diabetes
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import diabetes, friedman


def mlp(inputs: int = 10) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, 1))


def setup(target: torch.Tensor, loss_fn: Any = None, net: nn.Module | None = None, **more: Any) -> dict[str, Any]:
    rows = diabetes()[0] if len(target) == 442 else friedman()[0]
    loader = DataLoader(TensorDataset(rows, target), 64, shuffle=True)
    return {"model": net or mlp(), "loader": loader, "loss_fn": loss_fn or nn.MSELoss(), **more}


def prices() -> torch.Tensor:
    return 2e5 + 5e4 * friedman()[1]


@failing_example("unscaled-targets", where="batch[1]")
def diabetes_as_measured() -> dict[str, Any]:
    """Progress of the illness between 25 and 346."""
    return setup(torch.tensor(load_diabetes(return_X_y=True)[1], dtype=torch.float32)[:, None])


@failing_example("unscaled-targets", where="batch[1]")
def house_prices() -> dict[str, Any]:
    """Around 200,000, under the absolute error."""
    return setup(prices(), nn.L1Loss())


@failing_example("unscaled-targets", where="batch[1]")
def centered_but_large() -> dict[str, Any]:
    """Around zero, by thousands."""
    return setup(3000 * friedman()[1], nn.HuberLoss())


@failing_example("unscaled-targets", where="batch[1]")
def daily_returns() -> dict[str, Any]:
    """Hundredths of a percent."""
    return setup(1e-4 * friedman()[1])  # fixed: return setup(friedman()[1] / friedman()[1].std())


def alarms(setup: dict[str, Any]) -> list[str]:
    report = nbdebug.diagnose(**setup, checks=["unscaled-targets"], progress=False)
    assert report.result("unscaled-targets").status in ("clean", "skipped", "found")
    return [str(f) for f in report.alarms]


class Scaled(nn.Module):
    """Knows the size of what it predicts."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.body, self.factor = mlp(), factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2e5 + self.factor * self.body(x)


def test_targets_within_reach_are_healthy() -> None:
    assert not alarms(setup(friedman()[1]))
    assert not alarms(setup(5 + 4 * friedman()[1]))
    assert not alarms(setup(prices(), net=Scaled(5e4)))
    assert not alarms(setup(prices(), net=Scaled(1.0)))
    with_bias = mlp()
    nn.init.constant_(with_bias[2].bias, 2e5)
    assert not alarms(setup(prices(), net=with_bias))


def test_a_loss_that_scales_is_healthy() -> None:
    assert not alarms(setup(prices(), lambda o, y: nn.functional.mse_loss(o, (y - 2e5) / 5e4)))
    assert not alarms(setup(prices(), lambda o, y: nn.functional.mse_loss(o, torch.log(y))))
    assert not alarms(setup(torch.poisson(torch.full((800, 1), 200.0)), nn.PoissonNLLLoss()))
