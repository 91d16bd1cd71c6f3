"""Failing examples that mix inputs and targets with different samples or shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from tests.checks.families import alarms_of
from tests.checks.objective_programs import Program, mixed
from tests.examples import failing_example

CHECK = "targets-mixed-differently"


@failing_example("targets-mixed-differently", where="compute_loss")
def two_permutations() -> Program:
    """Images are mixed with one partner, and labels with another."""

    def mix(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        order = torch.randperm(len(x))
        other = torch.randperm(len(x))  # fixed: other = order
        return 0.7 * x + 0.3 * x[order], 0.7 * y + 0.3 * y[other]

    return mixed(mix)


@failing_example("targets-mixed-differently", where="compute_loss")
def shares_exchanged() -> Program:
    """The share of the partner is given to the sample's own label."""

    def mix(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        order = torch.randperm(len(x))
        return 0.8 * x + 0.2 * x[order], 0.2 * y + 0.8 * y[order]

    return mixed(mix)


def of_criterion(own: float, other: float) -> Program:
    """Return a program that compares with both labels, each with its share."""

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        x, y = batch
        order = torch.randperm(len(x))
        out = model(0.8 * x + 0.2 * x[order])
        return own * F.cross_entropy(out, y) + other * F.cross_entropy(out, y[order])

    return {**mixed(lambda x, y: (x, y)), "compute_loss": compute_loss}


def shuffled_before(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Shuffle both, and mix then."""
    first, order = torch.randperm(len(x)), torch.randperm(len(x))
    x, y = x[first], y[first]
    return 0.6 * x + 0.4 * x[order], 0.6 * y + 0.4 * y[order]


def flipped(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mix with the batch in reverse."""
    return torch.lerp(x, x.flip(0), 0.3), torch.lerp(y, y.flip(0), 0.3)


SOUND: dict[str, Callable[[], Program]] = {
    "criterion": lambda: of_criterion(0.8, 0.2),
    "shuffled-before": lambda: mixed(shuffled_before),
    "flipped": lambda: mixed(flipped),
    "inputs-only": lambda: mixed(lambda x, y: (x + 0.1 * x[torch.randperm(len(x))], y)),
    "plain": lambda: mixed(lambda x, y: (x, y)),
}
FAULTY: dict[str, Callable[[], Program]] = {
    "criterion-exchanged": lambda: of_criterion(0.2, 0.8),
    "flip-and-permutation": lambda: mixed(
        lambda x, y: (0.7 * x + 0.3 * x.flip(0), 0.7 * y + 0.3 * y[torch.randperm(len(y))])
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_programs_are_silent(name: str) -> None:
    assert not alarms_of(SOUND[name], CHECK)


@pytest.mark.parametrize("name", FAULTY)
def test_faults_are_found(name: str) -> None:
    assert alarms_of(FAULTY[name], CHECK) == ["bug"]
