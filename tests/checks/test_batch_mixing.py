"""Patients whose samples talk to each other."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import nbdebug
from tests.clinic import patient
from tests.zoo.tabular import digits


class ViewedWrong(nn.Module):
    """A view that was meant to be a transpose."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 32), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Lose track of the samples."""
        hidden = self.first(x).relu()
        return self.last(hidden.t().contiguous().view(len(x), -1))


class CentredOverBatch(nn.Module):
    """A normalisation by hand that takes the mean over the samples."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 32), nn.ReLU())
        self.last = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Subtract what the batch has in common."""
        hidden = self.body(x)
        return self.last(hidden - hidden.mean(0))


@patient("batch-mixing", where="last")
def viewed_wrong() -> dict[str, Any]:
    """The last layer is the first to see mixed samples."""
    return {"model": ViewedWrong(), "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


@patient("batch-mixing", where="last")
def centred_over_batch() -> dict[str, Any]:
    """The mean over dimension 0 mixes all samples."""
    return {"model": CentredOverBatch(), "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


def test_batchnorm_is_no_mixing() -> None:
    """Batch normalisation mixes in training mode only, which is its purpose."""
    model = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))
    report = nbdebug.diagnose(model, digits(), nn.CrossEntropyLoss(), checks=["batch-mixing"], progress=False)
    assert report.result("batch-mixing").status == "clean"
