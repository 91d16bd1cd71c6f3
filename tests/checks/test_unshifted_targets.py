"""Failing examples whose targets can be copied from what the model sees."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import nbdebug
from tests.checks.position_programs import UNSHIFTED
from tests.examples import failing_example
from tests.zoo.samples import chain_tokens, split
from tests.zoo.sequences import TinyGpt, next_token_loss
from tests.zoo.tutorial_texts import waves


@failing_example("unshifted-targets", where="batch[0]")
def targets_not_shifted() -> dict[str, Any]:
    """The token to be predicted is the token that is given."""
    tokens = chain_tokens()[:, :15]
    loader = split(tokens, tokens.clone(), batch_size=32)[0]
    # fixed: loader = split(tokens[:, :-1], tokens[:, 1:], batch_size=32)[0]
    return {"model": TinyGpt(), "loader": loader, "loss_fn": next_token_loss}


def shifting_loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return next_token_loss(output[:, :-1], target[:, 1:])


@failing_example("unshifted-targets", where="batch[0]")
def shifted_twice() -> dict[str, Any]:
    """Once in the data, once in the loss."""
    tokens = chain_tokens()
    loader = split(tokens[:, :-1], tokens[:, 1:], batch_size=32)[0]
    return {"model": TinyGpt(), "loader": loader, "loss_fn": shifting_loss}


class Forecaster(nn.Module):
    """Reads a window, and predicts one value."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.head = nn.GRU(1, 16, batch_first=True), nn.Linear(16, 1)

    def forward(self, past: torch.Tensor) -> torch.Tensor:
        return self.head(self.gru(past)[0][:, -1])


def error(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    return F.mse_loss(model(batch["past"]), batch["future"])


@failing_example("unshifted-targets", where="past")
def window_with_the_answer() -> dict[str, Any]:
    """The window is one step too long."""
    series = waves(64)
    batch = {"past": series[:, :27, None], "future": series[:, 26:27]}
    return {"model": Forecaster(), "loader": [batch], "compute_loss": error}


def findings(setup: dict[str, Any]) -> Any:
    torch.manual_seed(0)
    report = nbdebug.diagnose(**setup, checks=["unshifted-targets", "causal-leak"], progress=False)
    assert not [result for result in report.results if result.status == "crashed"], report.results
    return report.findings


@pytest.mark.parametrize("name", UNSHIFTED)
def test_what_can_be_copied_is_found(name: str) -> None:
    found = findings(UNSHIFTED[name]())
    assert [finding.check for finding in found] == ["unshifted-targets"]
    assert found[0].severity == "suspect" and found[0].evidence["share of targets that equal the input"] > 0.98


def test_a_series_that_is_reconstructed_in_order_is_a_note() -> None:
    series = torch.randn(32, 10, 3)
    assert [
        f.severity for f in findings({"model": Causal(), "loader": [(series, series.clone())], "loss_fn": nn.MSELoss()})
    ] == ["note"]


class Causal(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.GRU(3, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(x)[0])


def test_the_shift_in_the_data_and_in_the_loss_is_said() -> None:
    assert "and again by the loss" in findings(UNSHIFTED["llama-shifts-again"]())[0].says
