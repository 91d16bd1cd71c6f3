"""Failing examples whose attention never learns where its tokens stand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from tests.checks.families import alarms_of
from tests.checks.structure_programs import ORDER_IGNORED, ORDER_SEEN, Texts, chains, over_positions, rises
from tests.checks.table_programs import ROW_EACH, ROW_FOR_ALL
from tests.examples import failing_example


@failing_example("token-order-ignored", where="model")
def positions_forgotten() -> dict[str, Any]:
    """Tags that depend on the token before, for a model that is not told which one that is."""
    tokens = chains()
    model = Texts(out=2, positions="none")  # fixed: model = Texts(out=2, positions="learned")
    return {"model": model, "loader": [(tokens, rises(tokens))], "loss_fn": over_positions}


class Added(nn.Module):
    """A model whose positions are computed and not added."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(30, 32), nn.Embedding(64, 32)
        self.layer, self.head = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), nn.Linear(32, 2)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tag each token."""
        x = self.words(tokens)
        x + self.places(torch.arange(tokens.shape[1]))
        return self.head(self.layer(x))


@failing_example("token-order-ignored", where="model")
def sum_never_assigned() -> dict[str, Any]:
    """The sum of tokens and positions is thrown away."""
    return {"model": Added(), "loader": [(chains(), rises(chains()))], "loss_fn": over_positions}


def found(make: Any) -> Any:
    """Run the check alone."""
    torch.manual_seed(0)
    return nbdebug.diagnose(**make(), checks=["token-order-ignored"], progress=False, tell_apart=False)


@pytest.mark.parametrize("name", ORDER_SEEN)
def test_sound_programs_are_silent(name: str) -> None:
    report = found(ORDER_SEEN[name])
    assert report.results[0].status != "crashed"
    assert not report.alarms


@pytest.mark.parametrize("name", ORDER_IGNORED)
def test_missing_positions_are_found(name: str) -> None:
    assert [f.severity for f in found(ORDER_IGNORED[name]).findings] == ["suspect"]


@pytest.mark.parametrize("name", ROW_EACH)
def test_tables_with_a_row_for_each_position_are_silent(name: str) -> None:
    assert not alarms_of(ROW_EACH[name], "token-order-ignored")


@pytest.mark.parametrize("name", ROW_FOR_ALL)
def test_one_row_for_all_positions_is_found(name: str) -> None:
    assert alarms_of(ROW_FOR_ALL[name], "token-order-ignored") == ["suspect"]
