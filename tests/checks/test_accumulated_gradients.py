"""Loops that forget to clear gradients, and loops that accumulate on purpose."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import nbdebug
from tests import loops
from tests.examples import failing_example


@failing_example("accumulated-gradients", where="train_step")
def never_cleared() -> dict[str, Any]:
    """The call of zero_grad is missing."""
    return loops.setup(loops.without_zero_grad)  # fixed: return loops.setup(loops.right)


@failing_example("accumulated-gradients", where="train_step")
def cleared_on_another_optimizer() -> dict[str, Any]:
    """The gradients of something else are cleared."""
    other = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
        other.zero_grad()
        return loops.without_zero_grad(model, batch, loss_fn, optimizer)

    return loops.setup(step, 0.1, torch.optim.SGD)


def by_hand(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
    """Clear the gradients without the optimizer's help."""
    for parameter in model.parameters():
        parameter.grad = None
    return loops.without_zero_grad(model, batch, loss_fn, optimizer)


@pytest.mark.parametrize(
    "step", [loops.right, loops.accumulating(4), loops.accumulating(20), loops.clipped(1.0), by_hand]
)
def test_right_loops_are_clean(step: loops.Step) -> None:
    """Accumulation over several batches and clearing by hand are legitimate."""
    report = nbdebug.diagnose(**loops.setup(step), checks=["accumulated-gradients", "step-never-taken"], progress=False)
    assert [result.status for result in report.results] == ["clean", "clean"], report.findings


def test_skipped_without_a_step() -> None:
    """Without train_step there is nothing to look at, and that is said."""
    report = nbdebug.diagnose(**loops.setup(), checks=["accumulated-gradients"], progress=False)
    assert report.results[0].status == "skipped"
    assert "train_step" in report.results[0].reason


def attacked(model: Any, x: torch.Tensor, y: torch.Tensor, loss_fn: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Move the inputs along the sign of their gradient, by a backward pass; return them and the loss."""
    x = x.clone().requires_grad_(True)
    loss = loss_fn(model(x), y)
    loss.backward()
    return (x + 0.1 * x.grad.sign()).detach(), loss


@failing_example("accumulated-gradients", where="train_step")
def gradients_of_the_attack() -> dict[str, Any]:
    """The gradients are cleared before the attack, and not after it."""

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
        optimizer.zero_grad()
        moved, _ = attacked(model, *batch, loss_fn)
        loss = loss_fn(model(moved), batch[1])
        loss.backward()
        optimizer.step()
        return loss

    return loops.setup(step, 0.1, torch.optim.SGD)


@pytest.mark.parametrize("returns", ["both", "clean", "once"])
def test_clean_and_attacked_samples_may_train_together(returns: str) -> None:
    """The loss that is returned says that the first pass is meant; or there is one pass alone, for both."""

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
        optimizer.zero_grad()
        moved, clean = attacked(model, *batch, loss_fn)
        if returns == "once":
            optimizer.step()
            return clean.detach()
        loss = loss_fn(model(moved), batch[1])
        loss.backward()
        optimizer.step()
        return clean.detach() + loss.detach() if returns == "both" else clean.detach()

    report = nbdebug.diagnose(
        **loops.setup(step, 0.1, torch.optim.SGD), checks=["accumulated-gradients"], progress=False
    )
    assert report.alarms == []
