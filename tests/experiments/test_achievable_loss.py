"""How much of what a loss allows has been learned."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from nbdebug.core.control import Control
from nbdebug.experiments.achievable_loss import share_of_possible
from nbdebug.sandbox import make_sandbox
from nbdebug.setup import Setup
from tests.zoo.odd_amounts import gamma_loss


class Said(nn.Module):
    """A model that gives what it was told to, one number for each sample."""

    def __init__(self, values: torch.Tensor) -> None:
        super().__init__()
        self.values = nn.Parameter(values)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the values, whatever the input."""
        return self.values + 0 * x[:, 0]


AMOUNTS = torch.tensor([100.0, 200.0, 400.0, 900.0])


def share(values: torch.Tensor, loss_fn: Any) -> Any:
    """Measure a model that says these values."""
    setup = Setup(Said(values), [(torch.zeros(4, 2), AMOUNTS)], loss_fn)
    sandbox = make_sandbox(setup, Control())
    return share_of_possible(sandbox, sandbox.batch())


def test_right_answers_are_all_that_is_possible() -> None:
    """A likelihood that stays at 6.7 has been learned if no other answers give less."""
    fit = share(AMOUNTS.log(), gamma_loss)
    assert fit is not None and fit.is_perfect


def test_one_answer_for_all_is_nothing() -> None:
    """The right level alone is chance."""
    fit = share(AMOUNTS.mean().log().repeat(4), gamma_loss)
    assert fit is not None and abs(fit.value) < 0.01


def test_nothing_is_said_where_one_answer_is_best_for_all() -> None:
    """A loss that compares every output with every target wants the same of all, so it cannot tell who learned."""
    assert share(AMOUNTS, lambda said, amount: ((said[:, None] - amount) / 100).square().mean()) is None
