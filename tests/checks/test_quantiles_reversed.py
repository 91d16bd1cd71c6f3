"""Failing examples whose outputs learn the opposite quantiles."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.checks.families import alarms_of
from tests.checks.objective_programs import Program, learned, rows
from tests.examples import failing_example

CHECK = "quantiles-reversed"
LEVELS = (0.1, 0.5, 0.9)


def column_by_column(out: torch.Tensor, y: torch.Tensor, sign: int = 1) -> torch.Tensor:
    """Add up the costs of the columns."""
    errors = [sign * (y - out[:, k]) for k in range(3)]
    return torch.stack([torch.max((q - 1) * e, q * e) for q, e in zip(LEVELS, errors, strict=True)], 1).sum(1).mean()


def at_once(out: torch.Tensor, y: torch.Tensor, levels: tuple[float, ...] = LEVELS, sign: int = 1) -> torch.Tensor:
    """Compute all columns at once."""
    q, error = torch.tensor(levels), sign * (y[:, None] - out)
    return torch.maximum(q * error, (q - 1) * error).mean()


@failing_example("quantiles-reversed", where="compute_loss")
def prediction_minus_target() -> Program:
    """The error has the wrong sign."""

    def loss(out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        q = torch.tensor([0.1, 0.9])
        error = out - y[:, None]  # fixed: error = y[:, None] - out
        return torch.maximum(q * error, (q - 1) * error).mean()

    return learned(loss, rows()[:, 0], out=2)


@failing_example("quantiles-reversed", where="compute_loss")
def columns_of_the_wrong_sign() -> Program:
    """The same, column by column."""
    return learned(lambda out, y: column_by_column(out, y, -1), rows()[:, 0], out=3)


SOUND: dict[str, Callable[[], Program]] = {
    "at-once": lambda: learned(at_once, rows()[:, 0], out=3),
    "column-by-column": lambda: learned(column_by_column, rows()[:, 0], out=3),
    "falling-levels": lambda: learned(lambda out, y: at_once(out, y, (0.9, 0.5, 0.1)), rows()[:, 0], out=3),
    "other-form": lambda: learned(
        lambda out, y: sum(
            ((1 - q) * (out[:, k] - y).relu() + q * (y - out[:, k]).relu()).mean() for k, q in enumerate(LEVELS)
        ),  # type: ignore[arg-type,return-value]
        rows()[:, 0],
        out=3,
    ),
    "absolute": lambda: learned(lambda out, y: (out - y[:, None]).abs().mean(), rows()[:, 0], out=3),
    "squares": lambda: learned(lambda out, y: (out - y[:, None]).square().mean(), rows()[:, 0], out=3),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_programs_are_silent(name: str) -> None:
    assert not alarms_of(SOUND[name], CHECK)
