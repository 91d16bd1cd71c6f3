"""Failing examples whose loss counts the padding."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.checks.families import alarms_of
from tests.checks.mask_programs import COUNTS_CONTENT, COUNTS_PADDING, each, tags, values
from tests.examples import failing_example

CHECK = "loss-mask-inverted"


@failing_example("loss-mask-inverted", where="compute_loss")
def content_left_out() -> dict[str, Any]:
    """The mask of the losses means the opposite."""
    torch.manual_seed(0)
    return tags(lambda scores, y, is_real: each(scores, y).masked_fill(is_real, 0.0).mean())
    # fixed: return tags(lambda scores, y, is_real: each(scores, y).masked_fill(~is_real, 0.0).mean())


@failing_example("loss-mask-inverted", where="compute_loss")
def zeros_behind_the_end() -> dict[str, Any]:
    """Numbers, filled up with zeros."""
    torch.manual_seed(0)
    return values(lambda predicted, y, is_real: (predicted - y)[~is_real].square().mean())


@pytest.mark.parametrize("name", COUNTS_CONTENT)
def test_sound_programs_are_silent(name: str) -> None:
    assert not alarms_of(COUNTS_CONTENT[name], CHECK)


@pytest.mark.parametrize("name", COUNTS_PADDING)
def test_faults_are_found(name: str) -> None:
    assert alarms_of(COUNTS_PADDING[name], CHECK) == ["bug"]
