"""Failing examples that read boxes in another format as corners."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.checks.families import alarms_of
from tests.checks.objective_programs import Program, boxes, corners, overlap
from tests.examples import failing_example

CHECK = "box-format-mismatch"


@failing_example("box-format-mismatch", where="compute_loss")
def centers_as_corners() -> Program:
    """Center and size, in a loss that expects two corners."""
    return boxes(lambda found, wanted: 1 - overlap(found, wanted))
    # fixed: return boxes(lambda found, wanted: 1 - overlap(corners(found), corners(wanted)))


@failing_example("box-format-mismatch", where="compute_loss")
def targets_not_converted() -> Program:
    """Predictions are converted, and targets are not."""
    return boxes(lambda found, wanted: -overlap(corners(found), wanted).log())


def by_columns(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Compute areas column by column."""
    (a, b, c, d), (e, f, g, h) = one.unbind(-1), other.unbind(-1)
    inner = (torch.min(c, g) - torch.max(a, e)).clamp(min=0) * (torch.min(d, h) - torch.max(b, f)).clamp(min=0)
    return inner / ((c - a) * (d - b) + (g - e) * (h - f) - inner + 1e-6)


SOUND: dict[str, Callable[[], Program]] = {
    "corners": lambda: boxes(lambda found, wanted: 1 - overlap(corners(found), corners(wanted))),
    "by-columns": lambda: boxes(lambda found, wanted: 1 - by_columns(corners(found), corners(wanted))),
    "l1": lambda: boxes(lambda found, wanted: (found - wanted).abs().sum(1)),
    "differences": lambda: boxes(
        lambda found, wanted: ((found - wanted)[:, 2:] - (wanted[:, 2:] - wanted[:, :2])) ** 2
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_programs_are_silent(name: str) -> None:
    assert not alarms_of(SOUND[name], CHECK)


def test_areas_by_columns_are_found() -> None:
    assert alarms_of(lambda: boxes(lambda found, wanted: 1 - by_columns(found, wanted)), CHECK) == ["bug"]
