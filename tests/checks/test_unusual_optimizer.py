"""Slipped digits in the optimizer's settings."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import nbdebug
from tests import loops
from tests.clinic import patient


@patient("unusual-optimizer", where="optimizer.param_groups[0]")
def second_beta_with_a_slip() -> dict[str, Any]:
    """The second beta was meant to be 0.999."""
    return loops.setup(None, 1e-3, torch.optim.Adam, betas=(0.9, 0.0999))


@patient("unusual-optimizer", where="optimizer.param_groups[0]")
def eps_with_the_sign_lost() -> dict[str, Any]:
    """The exponent of eps lost its sign."""
    return loops.setup(None, 1e-3, torch.optim.RMSprop, eps=1e8)
    # cured: return loops.setup(None, 1e-3, torch.optim.RMSprop, eps=1e-8)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (torch.optim.Adam, {"betas": (0.5, 0.999)}),
        (torch.optim.AdamW, {"betas": (0.9, 0.95), "weight_decay": 0.1}),
        (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
        (torch.optim.RMSprop, {"alpha": 0.9, "eps": 1e-3}),
    ],
)
def test_published_recipes_are_clean(make: Any, options: dict[str, Any]) -> None:
    """Settings that papers used are not unusual."""
    report = nbdebug.diagnose(**loops.setup(None, 1e-3, make, **options), checks=["unusual-optimizer"], progress=False)
    assert report.results[0].status == "clean"
