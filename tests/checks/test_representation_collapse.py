"""Failing examples whose loss is lowest where all samples are one."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import nbdebug
from tests.checks.structure_programs import COLLAPSES, KEPT_APART, agree, views
from tests.examples import failing_example


@failing_example("representation-collapse", where=("body.3", "predictor"))
def stop_gradient_forgotten() -> dict[str, Any]:
    """Two views are to agree, and nothing keeps the samples apart."""
    torch.manual_seed(0)
    return views(lambda one, other: agree(one, other), predictor=True, batch_norm=True)
    # fixed: return views(lambda one, other: agree(one, other.detach()), predictor=True, batch_norm=True)


@failing_example("representation-collapse", where="body.3")
def pairs_without_others() -> dict[str, Any]:
    """A siamese network that gets pairs of the same kind alone."""
    return views(lambda one, other: (one - other).square().sum(1).mean())


def found(make: Any) -> Any:
    """Run the check alone."""
    torch.manual_seed(0)
    return nbdebug.diagnose(**make(), checks=["representation-collapse"], progress=False, tell_apart=False)


@pytest.mark.parametrize("name", KEPT_APART)
def test_sound_programs_are_silent(name: str) -> None:
    report = found(KEPT_APART[name])
    assert report.results[0].status != "crashed"
    assert not report.alarms


@pytest.mark.parametrize("name", COLLAPSES)
def test_faults_are_found(name: str) -> None:
    assert [f.severity for f in found(COLLAPSES[name]).findings][:1] in (["suspect"], ["bug"])
