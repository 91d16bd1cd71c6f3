"""Failing examples that train in eval mode."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.zoo.tabular import digits

CHECK = "left-in-eval-mode"


def network() -> nn.Sequential:
    """A network with dropout and batch normalization."""
    return nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 10))


def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """An ordinary step."""
    optimizer.zero_grad()
    loss = loss_fn(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss


def evaluating_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """A step that was copied from the evaluation."""
    model.eval()  # fixed: model.train()
    return step(model, batch, loss_fn, optimizer)


def measuring_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """A step that measures in eval mode in between, and goes back."""
    model.train()
    loss = step(model, batch, loss_fn, optimizer)
    model.eval()
    with torch.no_grad():
        model(batch[0])
    return loss


def setup(model: nn.Module, train_step: Any = None) -> dict[str, Any]:
    """Put a set-up together."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    made = {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}
    return made | ({"train_step": train_step} if train_step else {})


@failing_example(CHECK, where="1")
def step_that_evaluates() -> dict[str, Any]:
    """The step itself calls eval()."""
    return setup(network(), evaluating_step)


@failing_example(CHECK, where="1")
def never_switched_back() -> dict[str, Any]:
    """The model was evaluated, and the loop goes on."""
    return setup(network().eval(), step)


def report(made: dict[str, Any]) -> nbdebug.Report:
    """Run this check alone."""
    return nbdebug.diagnose(**made, checks=[CHECK], progress=False)


def test_ordinary_steps_are_clean() -> None:
    assert report(setup(network(), step)).result(CHECK).status == "clean"
    assert report(setup(network(), measuring_step)).result(CHECK).status == "clean"
    assert report(setup(network().eval(), measuring_step)).result(CHECK).status == "clean"


def test_a_model_handed_over_in_eval_mode_is_a_note() -> None:
    found = report(setup(network().eval())).findings
    assert [f.severity for f in found] == ["note"]


def test_a_frozen_normalization_is_clean() -> None:
    model = network()
    model[1].eval()
    assert report(setup(model, step)).result(CHECK).status == "clean"

    def freezing_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        model.train()
        model[1].eval()  # type: ignore[index]
        return step(model, batch, loss_fn, optimizer)

    assert report(setup(network(), freezing_step)).result(CHECK).status == "clean"


def test_a_model_without_modes_is_skipped() -> None:
    assert report(setup(nn.Sequential(nn.Linear(64, 10)).eval(), step)).result(CHECK).status == "skipped"


def several(evaluate: Any) -> dict[str, Any]:
    """Two networks in one dict, which nothing but the step can call."""
    model = nn.ModuleDict({"encoder": nn.Sequential(nn.Linear(64, 16), nn.Dropout(0.2)), "head": nn.Linear(16, 10)})

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model["head"](model["encoder"](batch[0])), batch[1])
        loss.backward()
        optimizer.step()
        evaluate(model, batch)
        return loss

    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    return {"model": model, "loader": digits(), "optimizer": optimizer, "train_step": train_step}


@failing_example(CHECK, where="encoder.1")
def validated_in_the_step() -> dict[str, Any]:
    """The step validates, and does not switch back."""
    return several(lambda model, batch: model.eval()["encoder"](batch[0]))


def test_silent_where_the_step_switches_back() -> None:
    """Validation in the step, and train() after it."""
    made = several(lambda model, batch: (model.eval()["encoder"](batch[0]), model.train()))
    report = nbdebug.diagnose(**made, checks=[CHECK], progress=False)
    assert report.result(CHECK).status == "clean", report.result(CHECK)
