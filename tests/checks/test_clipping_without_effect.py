"""Gradients that are clipped in the wrong place."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

from tests.checks.networks import WIDTH, alarms, classifier, loader
from tests.examples import failing_example

CHECK = "clipping-without-effect"


def setup(step: Any, model: nn.Module | None = None) -> dict[str, Any]:
    """Classify with this step."""
    model = model if model is not None else classifier()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    return {"model": model, "loader": loader(targets=True), "optimizer": optimizer, "train_step": step}


@failing_example(CHECK, where="train_step")
def after_the_step() -> dict[str, Any]:
    """The lines are in the wrong order."""

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        return loss

    return setup(step)


@failing_example(CHECK, where="train_step")
def before_backward() -> dict[str, Any]:
    """There are no gradients yet, and the function was imported by its name."""

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch[0])[:, -1], batch[1])
        clip_grad_norm_(model.parameters(), 1.0)  # fixed: loss.backward()
        loss.backward()  # fixed: clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return setup(step, nn.Sequential(nn.Unflatten(1, (4, 2)), nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2)))


def scaled_step(*, unscale: bool) -> Any:
    """Return a step with a gradient scaler."""
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
        scaler.scale(loss).backward()
        if unscale:
            scaler.unscale_(optimizer)
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
        return loss

    return step


@failing_example(CHECK, where="train_step")
def before_unscaling() -> dict[str, Any]:
    """The limit meets gradients that are a thousand times as large."""
    return setup(scaled_step(unscale=False))


def right_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """Clip in the right place."""
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
    loss.backward()
    clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss


def measuring_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """Read the norm after the step."""
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    clip_grad_norm_(model.parameters(), float("inf"))
    return loss


class Accumulating:
    """Clip every micro-batch, and step on every third."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        """Add up."""
        loss = nn.functional.cross_entropy(model(batch[0]), batch[1]) / 3
        loss.backward()
        clip_grad_norm_(list(model.parameters()), 1.0)
        self.calls += 1
        if self.calls % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()
        return loss


def last_layer_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """Clip one layer only."""
    optimizer.zero_grad(set_to_none=False)
    loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
    loss.backward()
    nn.utils.clip_grad_value_(model[-1].weight, 0.1)
    optimizer.step()
    return loss


@pytest.mark.parametrize(
    "step",
    [right_step, measuring_step, Accumulating(), last_layer_step, scaled_step(unscale=True)],
    ids=["right", "measuring", "accumulating", "last layer", "unscaled"],
)
def test_silent(step: Any) -> None:
    assert not alarms(CHECK, **setup(step, nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, 2))))
