"""The zoo is healthy: every set-up in it really trains to a good result."""

from __future__ import annotations

import math

import pytest
import torch

from tests.examples import Healthy, all_healthy
from tests.training import train

ZOO = [pytest.param(h, id=h.name, marks=[pytest.mark.slow] * h.is_tutorial) for h in all_healthy()]


@pytest.mark.parametrize("setup", ZOO)
def test_trains_to_a_good_result(setup: Healthy) -> None:
    """The loss comes down as far as it should, and the answers are right on data that were not trained on."""
    torch.manual_seed(0)
    result = train(setup.make(), setup.epochs)
    assert all(math.isfinite(loss) for loss in result.losses)
    assert setup.good(result.losses[0], result.losses[-1]), result.losses
    if setup.accuracy is not None:
        assert result.accuracy is not None and result.accuracy >= setup.accuracy, result


def test_is_large_enough() -> None:
    """A tool that is only tried on plain networks has been tried on nothing."""
    assert len(all_healthy()) >= 45
