"""Failing examples that differentiate a whole gradient at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.checks.families import alarms_of
from tests.checks.objective_programs import Program, equation, gradient
from tests.examples import failing_example

CHECK = "mixed-derivatives-summed"


@failing_example("mixed-derivatives-summed", where="compute_loss")
def laplacian_of_both_columns() -> Program:
    """The second derivatives of both columns in one call."""

    def laplacian(u: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        first = gradient(u, x)
        return gradient(first, x).sum(1)
        # fixed: return sum(gradient(first[:, k], x)[:, k] for k in range(2))

    return equation(laplacian)


@failing_example("mixed-derivatives-summed", where="compute_loss")
def sum_of_the_gradient() -> Program:
    """The sum of all first derivatives is differentiated, and one column read."""
    return equation(lambda u, x: gradient(gradient(u, x).sum(), x)[:, 0])


def columns(u: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Differentiate each column on its own."""
    first = gradient(u, x)
    return gradient(first[:, :1], x)[:, 0] + gradient(first[:, 1:], x)[:, 1]


def hutchinson(u: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Estimate the trace with random signs."""
    signs = torch.randint(0, 2, x.shape).to(x) * 2 - 1
    (found,) = torch.autograd.grad(gradient(u, x), x, signs, create_graph=True)
    return (found * signs).sum(1)


SOUND: dict[str, Callable[[], Program]] = {
    "columns": lambda: equation(columns),
    "hutchinson": lambda: equation(hutchinson),
    "gradient-penalty": lambda: equation(lambda u, x: gradient(u, x).norm(dim=1) - 1),
    "one-dimension": lambda: equation(lambda u, x: gradient(gradient(u, x), x)[:, 0], width=1),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_programs_are_silent(name: str) -> None:
    assert not alarms_of(SOUND[name], CHECK)


def test_a_step_that_goes_backward_is_read_as_well() -> None:
    def make() -> Program:
        found = equation(lambda u, x: gradient(gradient(u, x), x).sum(1))
        compute_loss = found.pop("compute_loss")

        def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
            optimizer.zero_grad()
            loss: torch.Tensor = compute_loss(model, batch, loss_fn)
            loss.backward()
            optimizer.step()
            return loss

        return {**found, "train_step": step}

    assert alarms_of(make, CHECK) == ["suspect"]
