"""Where the samples of a batch are: inferred once, kept as evidence, and said in the report."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.engine.session import Session
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.setup import Setup
from nbdebug.setup.batch_layout import BatchLayout


class LastStep(nn.Module):
    """A recurrent network whose inputs have time or the samples first."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.recurrent, self.head = nn.GRU(5, 8, batch_first=batch_first), nn.Linear(8, 3)
        self.batch_first = batch_first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores from the last state."""
        return self.head(self.recurrent(x)[1][0])


class Bags(nn.Module):
    """A network for bags of tokens that follow each other in one row."""

    def __init__(self) -> None:
        super().__init__()
        self.bags, self.head = nn.EmbeddingBag(20, 8), nn.Linear(8, 3)

    def forward(self, tokens: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        """Return scores for each bag."""
        return self.head(self.bags(tokens, offsets))


def sequences(batch_first: bool) -> tuple[nn.Module, list[Any]]:
    x = torch.randn(16, 9, 5) if batch_first else torch.randn(9, 16, 5)
    return LastStep(batch_first), [(x, torch.randint(0, 3, (16,)))] * 2


def bags() -> tuple[nn.Module, list[Any]]:
    return Bags(), [(torch.randint(0, 20, (40,)), torch.arange(0, 40, 4), torch.randint(0, 3, (10,)))] * 2


def layout(made: tuple[nn.Module, list[Any]]) -> tuple[BatchLayout, Setup]:
    setup = Setup(*made, nn.CrossEntropyLoss())
    found = Session(setup).gather(TrialRun).layout
    assert found is not None and setup.layout == found
    return found, setup


@pytest.mark.parametrize(("batch_first", "axis"), [(True, 0), (False, 1)])
def test_the_dimension_of_the_samples(batch_first: bool, axis: int) -> None:
    found, setup = layout(sequences(batch_first))
    assert (found.size, found.axis, found.time_first) == (16, axis, axis == 1)
    assert setup.description()["batch"].endswith(f"; 16 samples along dim {axis}")


def test_packed_samples_are_taken_whole() -> None:
    found, setup = layout(bags())
    assert found.packed and found.refused and found.whole and setup.whole_batches
    assert "packed along dim 0" in str(found)


def test_a_report_says_where_the_samples_are() -> None:
    model, batches = sequences(True)
    report = nbdebug.diagnose(model, batches, nn.CrossEntropyLoss(), checks=["forward-fails"], progress=False)
    assert report.setup["batch"].endswith("; 16 samples along dim 0")
