"""Failing examples that look samples up by a mask."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.checks.families import alarms_of
from tests.checks.likelihood_programs import INDEXED, MASKED, chosen, cox
from tests.examples import failing_example

CHECK = "mask-used-as-index"


@failing_example("mask-used-as-index", where="compute_loss")
def events_as_positions() -> dict[str, Any]:
    """A partial likelihood whose events are integers."""
    torch.manual_seed(0)
    return chosen(cox(lambda likelihood, event: likelihood[event.long()]))
    # fixed: return chosen(cox(lambda likelihood, event: likelihood[event.bool()]))


@failing_example("mask-used-as-index", where="compute_loss")
def valid_as_positions() -> dict[str, Any]:
    """Errors of the samples that are valid."""
    torch.manual_seed(0)
    return chosen(lambda x, time, valid: (x.squeeze(-1) - time.log()).square()[valid.int()].mean())


@pytest.mark.parametrize("name", MASKED)
def test_sound_programs_are_silent(name: str) -> None:
    assert not alarms_of(MASKED[name], CHECK)


@pytest.mark.parametrize("name", INDEXED)
def test_faults_are_found(name: str) -> None:
    assert alarms_of(INDEXED[name], CHECK) == ["bug"]
