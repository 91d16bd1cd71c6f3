"""The checks of positions and of attention read sequences in every shape, and alarm only on what is wrong."""

from __future__ import annotations

import pytest
import torch

import nbdebug
from tests.checks.sequence_shapes import SHAPES

CHECKS = (
    "causal-leak", "unshifted-targets", "visible-tokens-predicted", "inverted-attention-mask",
    "attention-over-wrong-dim", "unscaled-attention", "cached-decoding-differs",
)  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_only_what_is_wrong_is_found(name: str) -> None:
    torch.manual_seed(0)
    wanted, make = SHAPES[name]
    report = nbdebug.diagnose(**make(), checks=CHECKS, progress=False)
    assert [finding.check for finding in report.alarms] == [wanted] * bool(wanted)
    assert not [result for result in report.results if result.status == "crashed"]
