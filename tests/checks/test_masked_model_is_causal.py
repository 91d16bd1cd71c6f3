"""Failing examples that guess a masked word from one side only."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import nbdebug
from tests.checks.structure_programs import BOTH_SIDES, ONE_SIDE, Texts, TorchEncoder, hidden_words, over_positions
from tests.examples import failing_example


@failing_example("masked-model-is-causal", where="model")
def mask_of_a_decoder() -> dict[str, Any]:
    """An encoder for masked words with the causal mask of a decoder."""
    model = Texts(causal=True)  # fixed: model = Texts(causal=False)
    return {"model": model, "loader": [hidden_words()], "loss_fn": over_positions}


@failing_example("masked-model-is-causal", where="model")
def encoder_with_a_subsequent_mask() -> dict[str, Any]:
    """torch's encoder layer, called as in a language model."""
    return {"model": TorchEncoder(causal=True), "loader": [hidden_words()], "loss_fn": over_positions}


def found(make: Any) -> Any:
    """Run the check alone."""
    torch.manual_seed(0)
    return nbdebug.diagnose(**make(), checks=["masked-model-is-causal"], progress=False, tell_apart=False)


@pytest.mark.parametrize("name", BOTH_SIDES)
def test_sound_programs_are_silent(name: str) -> None:
    report = found(BOTH_SIDES[name])
    assert report.results[0].status != "crashed"
    assert not report.alarms


@pytest.mark.parametrize("name", ONE_SIDE)
def test_faults_are_found(name: str) -> None:
    assert [f.severity for f in found(ONE_SIDE[name]).findings][:1] in (["suspect"], ["bug"])
