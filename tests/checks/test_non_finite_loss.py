"""Trainings that end in NaN."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.examples import failing_recording
from tests.real_runs import mlp, watched


class Log(nn.Module):
    """A logarithm that is only defined while the values are positive."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Take it."""
        return torch.log(1.5 + x)


@failing_recording("non-finite-loss", where="2")
def logarithm_of_a_negative_number() -> dict[str, Any]:
    """After some steps a value falls below zero."""
    model = nn.Sequential(nn.Linear(64, 10), nn.Linear(10, 10), Log())
    return watched(model, torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9), steps=120)


@failing_recording("non-finite-loss")
def squares_that_overflow() -> dict[str, Any]:
    """A learning rate far too high for a sum of squares."""
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))

    def squares(output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return (output[:, 0] - labels).square().sum()

    return watched(model, torch.optim.SGD(model.parameters(), lr=0.1), steps=60, loss_fn=squares)


@failing_recording("non-finite-loss")
def one_batch_with_a_hole() -> dict[str, Any]:
    """A missing value in the batch of one step."""

    def hole(step: int, batch: Any) -> Any:
        x, y = batch
        return (x.index_fill(1, torch.tensor([3]), float("nan")) if step == 40 else x), y
        # fixed: return x.nan_to_num(), y

    model = mlp()
    return watched(model, torch.optim.Adam(model.parameters()), steps=60, change=hole)


def test_the_step_is_named() -> None:
    from nbdebug.watch.judging import judged

    torch.manual_seed(0)
    finding = judged(one_batch_with_a_hole()["recording"]).result("non-finite-loss").findings[0]
    assert finding.evidence["first step"] == 40 and "step 40" in finding.says
    assert finding.where == "0"  # the first layer that shows it
