"""What makes a training slow is named: as a suspect where something is far off its scale, in a note otherwise."""

from __future__ import annotations

from typing import Any

import torch

import nbdebug
from tests.checks.test_training_slow import small_steps
from tests.unseen.fifth_scales import weights_of_a_thousandth
from tests.unseen.fifth_slow import weights_of_ten


def diagnosed(made: dict[str, Any]) -> nbdebug.Report:
    """Diagnose everything, without a limit of time."""
    return nbdebug.diagnose(**made, effort="thorough", progress=False)


def test_weights_off_scale_that_slow_the_training_are_a_suspect() -> None:
    """They learn in the end; with the usual start a third of the steps is enough, from both random starts."""
    torch.manual_seed(0)
    report = diagnosed(weights_of_a_thousandth())
    first = report.findings[0]
    assert (first.check, first.severity) == ("initialization-off-scale", "suspect")
    assert first.verifications[0].verified and first.remedies[0].patch is not None
    assert len(first.verifications[0].contests) == 2
    (slow,) = report.result("training-slow").findings
    assert slow.severity == "note" and slow.remedies and "it comes as far in" in slow.says


def test_a_usual_start_under_a_careful_rate_is_no_alarm() -> None:
    """Scaled to unit variance, PyTorch's own initialization trains faster as well, which makes it no problem."""
    torch.manual_seed(0)
    assert not diagnosed(weights_of_ten(is_faulty=False)).alarms


def test_a_careful_rate_is_named_in_the_note_alone() -> None:
    """A higher rate speeds up most trainings, which makes a careful one no problem."""
    report = diagnosed(small_steps())
    (slow,) = report.result("training-slow").findings
    assert slow.severity == "note" and "learning rate ×" in slow.says
    assert not report.alarms
