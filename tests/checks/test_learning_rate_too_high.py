"""Learning rates that break training."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import nbdebug
from tests import loops
from tests.examples import failing_example
from tests.zoo.tabular import digits


@failing_example("learning-rate-too-high", where="optimizer")
def adam_with_rate_one() -> dict[str, Any]:
    """Adam jumps by one in every weight."""
    return loops.setup(None, 1.0)  # fixed: return loops.setup(None, 1e-3)


@failing_example("learning-rate-too-high", where="optimizer")
def sgd_that_diverges() -> dict[str, Any]:
    """A deep regression with plain SGD becomes NaN."""
    made = loops.setup(None, 30.0, torch.optim.SGD, momentum=0.9)
    return made


def test_a_flipped_sign_is_not_a_learning_rate() -> None:
    """A loss that rises at every rate is somebody else's illness."""
    model = loops.mlp()
    cross = nn.CrossEntropyLoss()
    report = nbdebug.diagnose(
        model,
        digits(),
        lambda output, target: -cross(output, target),
        checks=["learning-rate-too-high"],
        progress=False,
    )
    assert report.results[0].status == "clean"
