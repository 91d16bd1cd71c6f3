"""Loops that do not train."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import nbdebug
from tests import loops
from tests.examples import failing_example


@failing_example("step-never-taken", where="train_step")
def no_backward() -> dict[str, Any]:
    """There are never any gradients."""
    return loops.setup(loops.without_backward)  # fixed: return loops.setup(loops.right)


@failing_example("step-never-taken", where="train_step")
def no_step() -> dict[str, Any]:
    """There are gradients, and nobody uses them."""
    return loops.setup(loops.without_step)


@failing_example("step-never-taken", where="train_step")
def cleared_between() -> dict[str, Any]:
    """The gradients are gone when the step comes."""
    return loops.setup(loops.zeroed_too_late)


@pytest.mark.parametrize(
    ("step", "word"),
    [
        (loops.without_backward, "backward"),
        (loops.without_step, "step()` is never"),
        (loops.zeroed_too_late, "between"),
    ],
)
def test_names_the_missing_line(step: loops.Step, word: str) -> None:
    """Each kind of loop gets its own sentence."""
    report = nbdebug.diagnose(**loops.setup(step), checks=["step-never-taken"], progress=False)
    assert word in report.findings[0].says


def test_lbfgs_with_a_closure_is_clean() -> None:
    """An optimizer that calls forward and backward itself trains as well."""

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
        def closure() -> Any:
            optimizer.zero_grad()
            loss = loss_fn(model(batch[0]), batch[1])
            loss.backward()
            return loss

        return optimizer.step(closure)

    report = nbdebug.diagnose(
        **loops.setup(step, 0.1, torch.optim.LBFGS),
        checks=["step-never-taken", "accumulated-gradients"],
        progress=False,
    )
    assert not report.findings


@failing_example("step-never-taken", where="train_step")
def optimizer_made_in_every_call() -> dict[str, Any]:
    """The moments begin anew each time."""

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
        own = torch.optim.Adam(model.parameters(), lr=1e-3)  # fixed: own = optimizer
        return loops.right(model, batch, loss_fn, own)

    return loops.setup(step)
