"""Failing examples whose square roots are missing in the schedule of a diffusion."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.checks.families import alarms_of
from tests.checks.objective_programs import Program, denoised
from tests.examples import failing_example

CHECK = "noise-schedule-inconsistent"


@failing_example("noise-schedule-inconsistent", where="compute_loss")
def variance_of_the_noise() -> Program:
    """The noise is multiplied with its variance."""
    return denoised(lambda x, noise, kept: kept.sqrt() * x + (1 - kept) * noise)
    # fixed: return denoised(lambda x, noise, kept: kept.sqrt() * x + (1 - kept).sqrt() * noise)


@failing_example("noise-schedule-inconsistent", where="compute_loss")
def variance_of_the_data() -> Program:
    """The data are multiplied with what is left of their variance."""
    return denoised(lambda x, noise, kept: kept * x + (1 - kept).sqrt() * noise)


SOUND: dict[str, Callable[[], Program]] = {
    "preserving": lambda: denoised(lambda x, noise, kept: kept.sqrt() * x + (1 - kept).sqrt() * noise),
    "straight": lambda: denoised(lambda x, noise, kept: kept * x + (1 - kept) * noise),
    "exploding": lambda: denoised(lambda x, noise, kept: x + 5 * (1 - kept) * noise),
    "one-level": lambda: denoised(lambda x, noise, kept: 0.5**0.5 * x + 0.5 * noise),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_programs_are_silent(name: str) -> None:
    assert not alarms_of(SOUND[name], CHECK)
