"""The examples on the pages of the checks, run as a reader would run them: the ill code is found, the cured is not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import nbdebug
from nbdebug.registry import registry
from nbdebug.watch.judging import judged
from tests.clinic import all_patients, all_recorded
from tests.distributed.scenes import scene

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
from check_examples import Example, examples

EXAMPLES = examples()
# Every eighth is quick enough for every run; that the ill code is found is asked of every patient elsewhere.
CASES = [
    pytest.param(example, id=check, marks=[pytest.mark.slow] * (index % 8 > 0))
    for index, (check, example) in enumerate(sorted(EXAMPLES.items()))
]


def test_every_check_has_an_example() -> None:
    """All but those that compare processes, whose patients are trainings of several processes."""
    assert set(EXAMPLES) <= set(registry.load().checks)
    for patient in (*all_patients(), *all_recorded()):
        assert patient.check in EXAMPLES or patient.make.__globals__.get("scene") is scene, patient.name


def found_by(check: str, setup: dict[str, Any]) -> list[nbdebug.Finding]:
    """Ask the check alone, or judge the training that was recorded."""
    if "recording" in setup:
        report = judged(setup["recording"])
    else:
        report = nbdebug.diagnose(**setup, checks=[check], progress=False)
    result = report.result(check)
    assert result.status != "crashed", result
    return list(result.findings)


@pytest.mark.parametrize("example", CASES)
def test_the_ill_is_found_and_the_cured_is_not(example: Example) -> None:
    """The three blocks of a page are run in their order, in one namespace; a cure may leave a note, but no alarm."""
    known: dict[str, Any] = {}
    exec(example.helpers, known)
    exec(example.bad, known)
    torch.manual_seed(0)
    ill = found_by(example.check, known[example.name]())
    assert ill
    exec(example.good, known)
    torch.manual_seed(0)
    cured = found_by(example.check, known[example.name]())
    assert not [finding for finding in cured if finding.severity in {one.severity for one in ill}], cured
