"""Failing examples whose signal does not survive the way through the layers."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import nbdebug
from tests.checks.test_vanishing_gradients import deep, setup
from tests.examples import failing_example


def tiny(weight: torch.Tensor) -> None:
    """Draw weights far too small."""
    nn.init.normal_(weight, std=0.01)  # fixed: nn.init.kaiming_normal_(weight)


def huge(weight: torch.Tensor) -> None:
    """Draw weights far too large."""
    nn.init.normal_(weight, std=0.8)


@failing_example("activations-off-scale", where="0")
def signal_dies() -> dict[str, Any]:
    """Ten layers with weights of 0.01."""
    return setup(deep(10, nn.ReLU, tiny))


@failing_example("activations-off-scale", where="0")
def signal_bursts() -> dict[str, Any]:
    """Eight layers with weights of 0.8."""
    return setup(deep(8, nn.ReLU, huge))


@failing_example("activations-off-scale", where="1")
def convolutions_fade() -> dict[str, Any]:
    """Convolutions that lose most of the signal each."""
    parts: list[nn.Module] = [nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 8, 3, padding=1), nn.Tanh()]
    for _ in range(8):
        parts += [nn.Conv2d(8, 8, 3, padding=1), nn.Tanh()]
    model = nn.Sequential(*parts, nn.Flatten(), nn.Linear(512, 10))
    for module in model:
        if isinstance(module, nn.Conv2d):
            nn.init.normal_(module.weight, std=0.02)
    return setup(model)


def test_one_small_layer_is_no_trend() -> None:
    """A single layer on another scale is not the signal's death."""
    model = deep(8, nn.ReLU, nn.init.kaiming_normal_)
    with torch.no_grad():
        model[6].weight.mul_(1e-6)
    report = nbdebug.diagnose(**setup(model), checks=["activations-off-scale"], progress=False)
    assert not report.alarms
