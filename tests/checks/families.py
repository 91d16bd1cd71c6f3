"""Run one check on families of programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import nbdebug


def alarms_of(make: Callable[[], dict[str, Any]], check: str) -> list[str]:
    """Return the severities that one check gives a program, notes left out; it must not crash."""
    torch.manual_seed(0)
    report = nbdebug.diagnose(**make(), checks=[check], progress=False, tell_apart=False)
    assert report.results[0].status != "crashed", report.results[0].reason
    return [finding.severity for finding in report.alarms]
