"""Steps out of proportion."""

from __future__ import annotations

from typing import Any

import torch

import nbdebug
from tests import loops
from tests.examples import failing_example


@failing_example("update-ratio-off")
def steps_as_large_as_the_weights() -> dict[str, Any]:
    """Adam moves every weight by ten."""
    return loops.setup(None, 10.0)  # fixed: return loops.setup(None, 1e-3)


@failing_example("update-ratio-off")
def steps_of_nothing() -> dict[str, Any]:
    """SGD for another scale hardly moves; a note."""
    return loops.setup(None, 1e-8, torch.optim.SGD)


def test_usual_rates_are_clean() -> None:
    """The usual optimizers step by about a thousandth."""
    for rate, make in ((1e-3, torch.optim.Adam), (0.1, torch.optim.SGD), (3e-2, torch.optim.Adagrad)):
        report = nbdebug.diagnose(**loops.setup(None, rate, make), checks=["update-ratio-off"], progress=False)
        assert report.results[0].status == "clean", report.findings
