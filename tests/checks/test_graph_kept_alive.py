"""Loops that hoard graphs, and loops that do not."""

from __future__ import annotations

from typing import Any

import pytest

import nbdebug
from tests import loops
from tests.examples import failing_example


@failing_example("graph-kept-alive", where="train_step")
def total_of_losses() -> dict[str, Any]:
    """The running total is a tensor with a history."""
    return loops.setup(loops.hoarding())


@failing_example("graph-kept-alive", where="train_step")
def list_of_losses() -> dict[str, Any]:
    """A list keeps every loss with its graph."""
    history: list[Any] = []

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
        history.append(loops.right(model, batch, loss_fn, optimizer))
        return history[-1]

    return loops.setup(step)


def detached_total() -> loops.Step:
    """Make a step that adds up numbers."""
    total = 0.0

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
        nonlocal total
        loss = loops.right(model, batch, loss_fn, optimizer)
        total += loss.item()
        return loss

    return step


@pytest.mark.parametrize("step", [loops.right, detached_total(), loops.accumulating(4)])
def test_clean_loops(step: loops.Step) -> None:
    """A loop that returns its loss keeps at most the newest graph."""
    report = nbdebug.diagnose(**loops.setup(step), checks=["graph-kept-alive"], progress=False)
    assert report.results[0].status == "clean"
