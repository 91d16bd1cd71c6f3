"""Failing examples whose samples talk to each other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import nbdebug
from tests.examples import failing_example
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


class CenteredOverBatch(nn.Module):
    """A normalization by hand that takes the mean over the samples."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 32), nn.ReLU())
        self.last = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Subtract what the batch has in common."""
        hidden = self.body(x)
        return self.last(hidden - hidden.mean(0))  # fixed: return self.last(hidden - hidden.mean(1, keepdim=True))


@failing_example("batch-mixing", where="last")
def viewed_wrong() -> dict[str, Any]:
    """The last layer is the first to see mixed samples."""
    return {"model": ViewedWrong(), "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


@failing_example("batch-mixing", where="last")
def centered_over_batch() -> dict[str, Any]:
    """The mean over dimension 0 mixes all samples."""
    return {"model": CenteredOverBatch(), "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


class TimeTakenForSamples(nn.Module):
    """A recurrent network that was not told that the samples come first."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent, self.head = nn.LSTM(8, 16), nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Read from sample to sample."""
        return self.head(self.recurrent(x.view(-1, 8, 8))[0][:, -1])


@failing_example("batch-mixing", where="recurrent")
def batch_first_forgotten() -> dict[str, Any]:
    """Every sample sees the samples before it."""
    return {"model": TimeTakenForSamples(), "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


class Attends(nn.Module):
    """Attention between the samples, behind a layer that begins at zero."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Weigh the samples by each other."""
        return torch.softmax(x @ x.t(), 0) @ x


@failing_example("batch-mixing", where="1")
def hidden_behind_a_zero() -> dict[str, Any]:
    """The head begins at zero, so the outputs show nothing yet."""
    model = nn.Sequential(nn.Linear(64, 16), Attends(), nn.Linear(16, 10))
    nn.init.zeros_(model[2].weight)
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


def result(**setup: Any) -> Any:
    """Run the check alone."""
    return nbdebug.diagnose(**setup, checks=["batch-mixing"], progress=False).result("batch-mixing")


def time_first(samples: list[Any]) -> Any:
    """Put the samples into the second dimension, as recurrent networks like it."""
    return torch.stack([x.view(8, 8) for x, _ in samples], 1), torch.stack([y for _, y in samples])


@pytest.mark.parametrize("size", [32, 8])  # 8 samples of 8 steps: the shapes alone do not tell
def test_time_may_come_first(size: int) -> None:
    class TimeFirst(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.recurrent, self.head = nn.GRU(8, 16), nn.Linear(16, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.recurrent(x)[0][-1])

    loader = DataLoader(digits().dataset, size, collate_fn=time_first)
    assert result(model=TimeFirst(), loader=loader, loss_fn=nn.CrossEntropyLoss()).status == "clean"


def test_a_table_of_all_pairs_is_no_mixing() -> None:
    class Pairs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(64, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            codes = nn.functional.normalize(self.layer(x), dim=1)
            return codes @ codes.t()

    def contrast(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        return nn.functional.cross_entropy(model(batch[0]), torch.arange(len(batch[0])))

    assert result(model=Pairs(), loader=digits(), compute_loss=contrast).status == "clean"


def test_nodes_of_a_graph_may_talk() -> None:
    class Graph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(5, 3)

        def forward(self, x: torch.Tensor, neighbors: torch.Tensor) -> torch.Tensor:
            return self.layer(neighbors @ x)

    nodes = (torch.rand(40, 5), torch.rand(40, 40), torch.randint(0, 3, (40,)))
    assert result(model=Graph(), loader=[nodes], loss_fn=nn.CrossEntropyLoss()).status == "skipped"


def test_statistics_of_the_batch_on_purpose_are_a_note() -> None:
    model = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32, track_running_stats=False), nn.Linear(32, 10))
    found = result(model=model, loader=digits(), loss_fn=nn.CrossEntropyLoss())
    assert [f.severity for f in found.findings] == ["note"]


def test_scripted_models_are_judged_by_their_outputs() -> None:
    good = torch.jit.script(nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)))
    assert result(model=good, loader=digits(), loss_fn=nn.CrossEntropyLoss()).status == "clean"
    bad = torch.jit.script(CenteredOverBatch())
    assert result(model=bad, loader=digits(), loss_fn=nn.CrossEntropyLoss()).findings[0].where == "model"


def test_batchnorm_is_no_mixing() -> None:
    """Batch normalization mixes in training mode only, which is its purpose."""
    model = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))
    report = nbdebug.diagnose(model, digits(), nn.CrossEntropyLoss(), checks=["batch-mixing"], progress=False)
    assert report.result("batch-mixing").status == "clean"
