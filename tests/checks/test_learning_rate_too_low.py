"""Learning rates at which nothing moves."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import nbdebug
from tests import loops
from tests.examples import failing_example


@failing_example("learning-rate-too-low", where="optimizer")
def adam_that_creeps() -> dict[str, Any]:
    """Adam moves every weight by a hundred-millionth."""
    return loops.setup(None, 1e-8)  # fixed: return loops.setup(None, 1e-3)


@failing_example("learning-rate-too-low", where="optimizer")
def sgd_that_creeps() -> dict[str, Any]:
    """Plain SGD with a rate for another scale."""
    return loops.setup(None, 1e-6, torch.optim.SGD)


@pytest.mark.parametrize(
    ("rate", "make"), [(1e-4, torch.optim.Adam), (3e-5, torch.optim.AdamW), (0.01, torch.optim.SGD)]
)
def test_careful_rates_are_clean(rate: float, make: Any) -> None:
    """A rate for fine-tuning is slow and legitimate."""
    report = nbdebug.diagnose(**loops.setup(None, rate, make), checks=["learning-rate-too-low"], progress=False)
    assert not report.alarms
