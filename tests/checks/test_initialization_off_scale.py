"""Failing examples that start from weights of the wrong size."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.zoo.tabular import digits


def mlp(layers: int = 3, width: int = 64, act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Return a plain network for digits."""
    parts: list[nn.Module] = [nn.Linear(64, width), act()]
    for _ in range(layers - 2):
        parts += [nn.Linear(width, width), act()]
    return nn.Sequential(*parts, nn.Linear(width, 10))


def setup(model: nn.Module) -> dict[str, Any]:
    """Look at digits."""
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


def started(model: nn.Module, std: float) -> nn.Module:
    """Draw every weight from the same normal distribution."""
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            nn.init.normal_(module.weight, std=std)
    return model


@failing_example("initialization-off-scale", where="0")
def standard_normal() -> dict[str, Any]:
    """Every weight of a four-layer network from a standard normal."""
    return setup(started(mlp(4), 1.0))


@failing_example("initialization-off-scale", where="0")
def nearly_nothing() -> dict[str, Any]:
    """Weights so small that no signal comes through."""
    return setup(started(mlp(5, act=nn.Tanh), 0.001))


@failing_example("initialization-off-scale", where=("1", "3"))
def convolutions_too_large() -> dict[str, Any]:
    """Kernels from a standard normal, no normalization."""
    model = nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(256, 10),
    )  # fmt: skip
    return setup(started(model, 2.0))  # fixed: return setup(model)


def severities(model: nn.Module) -> list[str]:
    """Run the check alone."""
    report = nbdebug.diagnose(**setup(model), checks=["initialization-off-scale"], progress=False)
    assert report.results[0].status != "crashed", report.results[0]
    return [finding.severity for finding in report.findings]


def test_a_layer_that_training_makes_up_for_is_noted() -> None:
    """One hidden layer five hundred times too large: the first loss is far off, and the steps put it right."""
    model = mlp(4)
    with torch.no_grad():
        model[2].weight.mul_(500)
    report = nbdebug.diagnose(**setup(model), checks=["initialization-off-scale"], progress=False)
    (finding,) = report.findings
    assert finding.where == "2" and "(initially " in finding.says
    assert finding.severity == "note" or finding.evidence["gain"] > 0


def test_normalized_network_does_not_mind() -> None:
    """Batch normalization divides by whatever the weights multiply with."""
    model = nn.Sequential(
        nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(),
        nn.Linear(64, 10),
    )  # fmt: skip
    for index in (0, 3):
        nn.init.normal_(model[index].weight, std=0.02)
    assert severities(model) == []


def test_small_head_is_a_good_start() -> None:
    """A last layer near zero says that nothing is known yet."""
    model = mlp()
    nn.init.normal_(model[-1].weight, std=1e-4)
    assert severities(model) == []


def test_usual_recipes_are_silent() -> None:
    """He, Glorot, orthogonal and GPT's 0.02 are all within the band or harmless."""
    for recipe in (nn.init.kaiming_normal_, nn.init.xavier_uniform_, nn.init.orthogonal_):
        model = mlp(5)
        for module in model:
            if isinstance(module, nn.Linear):
                recipe(module.weight)
        assert severities(model) == []
