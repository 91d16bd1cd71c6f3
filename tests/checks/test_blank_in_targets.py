"""CTC losses whose targets hold the blank, or do not fit into their inputs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.checks.networks import alarms
from tests.examples import failing_example

CHECK = "blank-in-targets"
FRAMES, SYMBOLS = 20, 4


class Reader(nn.Module):
    """Log-probabilities of symbols for every frame."""

    def __init__(self, body: nn.Module, width: int, classes: int) -> None:
        super().__init__()
        self.body, self.head = body, nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Read the frames."""
        hidden = self.body(x)
        return self.head(hidden[0] if isinstance(hidden, tuple) else hidden).log_softmax(-1)


def texts(first: int, length: int = 3) -> TensorDataset:
    """Return noise for strips, and texts of two to `length` symbols that are numbered from here."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(2, length + 1, (96,), generator=generator)
    symbols = torch.randint(first, first + SYMBOLS, (96, length), generator=generator)
    return TensorDataset(torch.randn(96, FRAMES, 6, generator=generator), symbols, lengths)


def setup(first: int, classes: int, body: nn.Module, width: int, length: int = 3, **more: Any) -> dict[str, Any]:
    """Train a reader with a CTC loss."""
    model = Reader(body, width, classes)

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        x, symbols, lengths = batch
        scores = model(x).transpose(0, 1)
        return nn.functional.ctc_loss(scores, symbols, torch.full((len(x),), len(scores)), lengths, **more)

    return {"model": model, "loader": DataLoader(texts(first, length), 16), "compute_loss": compute_loss}


@failing_example(CHECK, where="loss_fn")
def symbols_counted_from_zero() -> dict[str, Any]:
    """The first symbol has the number of the blank."""
    return setup(0, SYMBOLS, nn.GRU(6, 16, batch_first=True), 16)
    # fixed: return setup(1, SYMBOLS + 1, nn.GRU(6, 16, batch_first=True), 16)


@failing_example(CHECK, where="loss_fn")
def another_blank_that_is_a_symbol() -> dict[str, Any]:
    """The last class is the blank, and the symbols reach up to it."""
    return setup(1, SYMBOLS + 1, nn.Sequential(nn.Linear(6, 16), nn.ReLU()), 16, blank=SYMBOLS)


@failing_example(CHECK, where="loss_fn")
def texts_longer_than_their_strips() -> dict[str, Any]:
    """The network halves the frames twice."""
    pooled = nn.Sequential(
        nn.Flatten(1), nn.Unflatten(1, (FRAMES // 10, 60)), nn.Linear(60, 16), nn.ReLU()
    )  # two frames are left
    return setup(1, SYMBOLS + 1, pooled, 16, length=6, zero_infinity=True)


@pytest.mark.parametrize("blank", [0, SYMBOLS])
def test_a_free_blank_is_clean(blank: int) -> None:
    made = setup(1 if blank == 0 else 0, SYMBOLS + 1, nn.GRU(6, 16, batch_first=True), 16, blank=blank)
    assert not alarms(CHECK, **made)
