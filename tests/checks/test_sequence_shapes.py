"""The checks of positions and of attention read sequences in every shape, and alarm only on what is wrong."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import nbdebug
from tests.checks.sequence_shapes import SHAPES, first_state, placed, scored, scored_step

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


HOW = {"compute_loss": {"compute_loss": scored}, "train_step": {"train_step": scored_step}}


@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
def test_positions_that_number_the_samples_are_found(how: dict[str, Any]) -> None:
    torch.manual_seed(0)
    report = nbdebug.diagnose(**placed(**how), checks=["batch-mixing"], progress=False)
    assert [finding.check for finding in report.alarms] == ["batch-mixing"]


@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
def test_positions_that_reach_no_loss_are_found(how: dict[str, Any]) -> None:
    torch.manual_seed(0)
    report = nbdebug.diagnose(**first_state(**how), checks=["inputs-ignored"], progress=False)
    (found,) = report.alarms
    assert found.evidence["indices"] == list(range(1, 12))
