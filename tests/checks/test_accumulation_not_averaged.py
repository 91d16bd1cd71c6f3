"""Accumulated losses that are not divided."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.core.control import Control
from nbdebug.core.remedy import Patch, Remedy
from nbdebug.sandbox import make_sandbox
from nbdebug.setup import Setup
from tests.checks.networks import WIDTH, actor_critic, classifier, found, gan, loader
from tests.examples import failing_example

CHECK = "accumulation-not-averaged"


class Accumulating:
    """A step on every so many calls."""

    def __init__(self, every: int, divide: bool = False) -> None:
        self.every, self.divide, self.calls = every, divide, 0

    def __call__(self, model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        """Add up gradients."""
        loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
        (loss / self.every if self.divide else loss).backward()
        self.calls += 1
        if self.calls % self.every == 0:
            optimizer.step()
            optimizer.zero_grad()
        return loss


def test_averaging_is_the_fix() -> None:
    """Gradients divided on the copy are those of a divided loss."""
    weights = []
    for divide in (True, False):
        torch.manual_seed(0)
        made = Setup(**setup(Accumulating(4, divide)))
        fix = Remedy("", "", Patch("average-accumulation", {"passes": 4}))
        sandbox = make_sandbox(made if divide else fix.apply(made), Control())
        torch.manual_seed(1)
        batches = sandbox.batches(4)
        for batch in batches:
            sandbox.user_step(batch)
        weights.append(torch.cat([p.detach().flatten() for p in sandbox.model.parameters()]))
    assert torch.allclose(weights[0], weights[1], atol=1e-6)


def setup(step: Any, model: nn.Module | None = None) -> dict[str, Any]:
    """Classify with this step."""
    model = model if model is not None else classifier()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    return {"model": model, "loader": loader(targets=True), "optimizer": optimizer, "train_step": step}


@failing_example(CHECK, where="optimizer")
def every_second_call() -> dict[str, Any]:
    """Two batches are added up."""
    return setup(Accumulating(2))  # fixed: return setup(Accumulating(2, divide=True))


def chunked(weigh: Any) -> Any:
    """Return a step that takes a batch in parts."""

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> float:
        optimizer.zero_grad()
        total = 0.0
        for x, y in zip(batch[0].chunk(4), batch[1].chunk(4), strict=True):
            loss = weigh(nn.functional.cross_entropy(model(x), y), len(x) / len(batch[0]))
            loss.backward()
            total += loss.item()
        optimizer.step()
        return total

    return step


@failing_example(CHECK, where="optimizer")
def parts_of_a_batch() -> dict[str, Any]:
    """Four quarters, each with its own mean."""
    return setup(chunked(lambda loss, share: loss))


def divide(model: nn.Module) -> None:
    """Average four gradients."""
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.grad /= 4


def clip(model: nn.Module) -> None:
    """Bound the gradients, as most programs do."""
    nn.utils.clip_grad_norm_(model.parameters(), 0.01)


def four_times(*changes: Any) -> Any:
    """Return a step over four noisy copies of a batch, with these changes of the gradients before the step."""

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        for _ in range(4):
            loss = nn.functional.cross_entropy(model(batch[0] + 0.1 * torch.randn_like(batch[0])), batch[1])
            loss.backward()
        for change in changes:
            change(model)
        optimizer.step()
        return loss

    return step


def test_a_bound_is_no_average() -> None:
    assert found(CHECK, **setup(four_times(clip)))


@failing_example(CHECK, where="optimizer")
def three_views() -> dict[str, Any]:
    """A convolution, and a loop over noisy copies."""

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        for _ in range(3):
            loss = nn.functional.cross_entropy(model(batch[0] + 0.1 * torch.randn_like(batch[0])), batch[1])
            loss.backward()
        optimizer.step()
        return loss

    layers = nn.Unflatten(1, (1, WIDTH)), nn.Conv1d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * (WIDTH - 2), 2)
    return setup(step, nn.Sequential(*layers))


@pytest.mark.parametrize(
    "make",
    [
        lambda: setup(Accumulating(3, divide=True)),
        lambda: setup(chunked(lambda loss, share: share * loss)),
        lambda: setup(four_times(divide)),
        lambda: setup(four_times(divide, clip)),
        lambda: setup(Accumulating(1)),
        gan,
        actor_critic,
    ],
    ids=["divided", "weighted", "gradients-divided", "gradients-divided-and-clipped", "plain", "gan", "actor-critic"],
)
def test_silent(make: Any) -> None:
    assert not found(CHECK, **make())
