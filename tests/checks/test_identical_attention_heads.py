"""Failing examples whose heads are one and the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import nbdebug
from tests.checks.structure_programs import (
    HEADS_ALIKE,
    HEADS_APART,
    Texts,
    TorchEncoder,
    chains,
    hidden_words,
    over_positions,
    rises,
)
from tests.examples import failing_example


@failing_example("identical-attention-heads", where="attend.0")
def one_query_for_all_heads() -> dict[str, Any]:
    """Queries and keys of one head's size, expanded to all heads."""
    model = Texts(out=2, kind="one-query")  # fixed: model = Texts(out=2, kind="plain")
    return {"model": model, "loader": [(chains(), rises(chains()))], "loss_fn": over_positions}


@failing_example("identical-attention-heads", where="layer.self_attn")
def heads_start_as_copies() -> dict[str, Any]:
    """The projection of the first head is repeated."""
    return {"model": TorchEncoder(copies=True), "loader": [hidden_words()], "loss_fn": over_positions}


def found(make: Any) -> Any:
    """Run the check alone."""
    torch.manual_seed(0)
    return nbdebug.diagnose(**make(), checks=["identical-attention-heads"], progress=False, tell_apart=False)


@pytest.mark.parametrize("name", HEADS_APART)
def test_sound_programs_are_silent(name: str) -> None:
    report = found(HEADS_APART[name])
    assert report.results[0].status != "crashed"
    assert not report.alarms


@pytest.mark.parametrize("name", HEADS_ALIKE)
def test_faults_are_found(name: str) -> None:
    assert [f.severity for f in found(HEADS_ALIKE[name]).findings][:1] in (["suspect"], ["bug"])
