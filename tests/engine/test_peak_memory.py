"""What a diagnosis holds beside the training: relative to the training's own peak, in a process of its own."""

from __future__ import annotations

import pytest

from benchmarks.growth import in_a_process
from benchmarks.memory import CLEAR

COPIES = 4.0  # of the parameters: a copy, its gradients, a second copy to compare it with, and what one layer needs


@pytest.mark.skipif(not CLEAR.exists(), reason="only Linux counts the peak of a process anew")
def test_a_diagnosis_holds_few_copies_of_the_parameters() -> None:
    """It held nine where each experiment copied the optimizer's state and left its copy to the garbage collector."""
    row = in_a_process("parameters", 10**7, "quick")
    assert row is not None, "the process failed"
    assert row["peak"] - row["training peak"] < COPIES * row["parameter bytes"], row
