"""Failing examples whose optimizer was made for something else."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.zoo.tabular import digits


class Parts(nn.Module):
    """A body and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.head = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Body, then head."""
        return self.head(self.body(x))


def setup(model: nn.Module, optimizer: torch.optim.Optimizer, **more: Any) -> dict[str, Any]:
    """Train on digits."""
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **more}


@failing_example("parameters-missing-from-optimizer", where="head")
def head_replaced_after() -> dict[str, Any]:
    """The head was replaced when the optimizer was already made."""
    model = Parts()
    optimizer = torch.optim.Adam(model.parameters())
    model.head = nn.Linear(32, 10)
    return setup(model, optimizer)


@failing_example("parameters-missing-from-optimizer", where="model")
def optimizer_of_another_model() -> dict[str, Any]:
    """The optimizer trains a copy."""
    model = Parts()
    return setup(model, torch.optim.SGD(copy.deepcopy(model).parameters(), lr=0.1))


@failing_example("parameters-missing-from-optimizer", where="body")
def only_the_head_given() -> dict[str, Any]:
    """A fresh body that nobody trains."""
    model = Parts()
    return setup(model, torch.optim.Adam(model.head.parameters()))
    # fixed: return setup(model, torch.optim.Adam(model.parameters()))


def severities(**setup: Any) -> list[str]:
    """Run the check alone."""
    report = nbdebug.diagnose(**setup, checks=["parameters-missing-from-optimizer"], progress=False)
    assert report.results[0].status in ("found", "clean"), report.results[0]
    return [finding.severity for finding in report.findings]


def test_frozen_parameters_need_no_optimizer() -> None:
    """A frozen body is not missed."""
    model = Parts()
    model.body.requires_grad_(False)
    assert severities(**setup(model, torch.optim.Adam(model.head.parameters()))) == []


def test_second_optimizer_of_the_step_counts() -> None:
    """A training step with two optimizers covers both parts."""
    model = Parts()
    body, head = torch.optim.Adam(model.body.parameters()), torch.optim.SGD(model.head.parameters(), 0.1)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        for one in (optimizer, head):
            one.step()
            one.zero_grad()
        return loss

    assert severities(**setup(model, body, train_step=step)) == []


def test_trained_body_under_a_new_head_is_a_note() -> None:
    """Features of a trained body are often used as they are, without being frozen."""
    model = Parts()
    trainer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(3):
        for x, y in digits():
            trainer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            trainer.step()
    model.head = nn.Linear(32, 10)
    assert severities(**setup(model, torch.optim.Adam(model.head.parameters()))) == ["note"]


def test_critic_beside_the_generator_is_a_note() -> None:
    """The other network of a pair has an optimizer of its own."""
    model = nn.Sequential()
    model.generator, model.discriminator = nn.Linear(64, 64), nn.Sequential(nn.Linear(64, 32), nn.Linear(32, 10))
    assert severities(**setup(model, torch.optim.Adam(model.generator.parameters()))) == ["note"]
