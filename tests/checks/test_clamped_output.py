"""Failing examples whose last activation cannot reach the targets."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import cancer, digit_rows, seeded, split
from tests.zoo.tabular import digits

CHECK = "clamped-output"


def net(*last: nn.Module, inputs: int = 64, outputs: int = 10) -> nn.Sequential:
    """Return a small network."""
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs), *last)


def numbers(factor: float = 1.0) -> Any:
    """Return rows with a target on both sides of zero."""
    rows = torch.randn(512, 8, generator=seeded())
    return split(rows, factor * (rows[:, :1] - rows[:, 1:2]))[0]


@failing_example(CHECK, where="3")
def relu_before_negative_numbers() -> dict[str, Any]:
    """Half of the targets are below zero."""
    return {"model": net(nn.ReLU(), inputs=8, outputs=1), "loader": numbers(), "loss_fn": nn.MSELoss()}


@failing_example(CHECK, where="3")
def tanh_before_large_numbers() -> dict[str, Any]:
    """The targets go to ±20, the outputs to ±1."""
    return {"model": net(nn.Tanh(), inputs=8, outputs=1), "loader": numbers(5.0), "loss_fn": nn.L1Loss()}


@failing_example(CHECK, where="3")
def sigmoid_before_cross_entropy() -> dict[str, Any]:
    """Ten scores between 0 and 1."""
    return {"model": net(nn.Sigmoid()), "loader": split(*digit_rows())[0], "loss_fn": nn.CrossEntropyLoss()}
    # fixed: return {"model": net(), "loader": split(*digit_rows())[0], "loss_fn": nn.CrossEntropyLoss()}


@failing_example(CHECK, where="3")
def relu_before_cross_entropy() -> dict[str, Any]:
    """Half of the scores start at zero without a gradient."""
    return {"model": net(nn.ReLU()), "loader": split(*digit_rows())[0], "loss_fn": nn.CrossEntropyLoss()}


@failing_example(CHECK, where="3")
def tanh_before_bce_with_logits() -> dict[str, Any]:
    """The most certain answer is sigmoid(1)."""
    return {
        "model": net(nn.Tanh(), inputs=30, outputs=1),
        "loader": split(*cancer())[0],
        "loss_fn": nn.BCEWithLogitsLoss(),
    }


@failing_example(CHECK, where="3")
def relu_before_bce_with_logits() -> dict[str, Any]:
    """A sigmoid of what is never negative never says no."""
    return {
        "model": net(nn.ReLU(), inputs=30, outputs=1),
        "loader": split(*cancer())[0],
        "loss_fn": nn.BCEWithLogitsLoss(),
    }


@failing_example(CHECK, where="3")
def hard_bounds_before_cross_entropy() -> dict[str, Any]:
    """At first no score is near the bounds, so the activation does not show in the outputs."""
    return {"model": net(nn.Hardtanh()), "loader": split(*digit_rows())[0], "loss_fn": nn.CrossEntropyLoss()}


class Cosine(nn.Module):
    """Cosines with class vectors, with a temperature or without."""

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.classes, self.temperature = nn.Parameter(torch.randn(10, 64)), temperature

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compare directions."""
        normal = nn.functional.normalize
        return normal(x) @ normal(self.classes).t() / self.temperature


@failing_example(CHECK, where="model")
def cosines_without_temperature() -> dict[str, Any]:
    """Cosines between -1 and 1 are no logits."""
    return {"model": Cosine(1.0), "loader": split(*digit_rows())[0], "loss_fn": nn.CrossEntropyLoss()}


@pytest.mark.parametrize(
    ("last", "factor"), [((), 100.0), ((nn.Softplus(),), 0.0), ((nn.BatchNorm1d(1),), 5.0), ((nn.Tanh(),), 0.1)]
)
def test_targets_within_reach(last: tuple[nn.Module, ...], factor: float) -> None:
    """Free outputs, positive ones for positive targets, scaled norms and small targets behind a tanh are fine."""
    report = nbdebug.diagnose(
        net(*last, inputs=8, outputs=1), numbers(factor), nn.MSELoss(), checks=[CHECK], progress=False
    )
    assert not report.findings


def test_a_head_started_at_zero_is_free() -> None:
    """Zeros can grow."""
    model = net(inputs=8, outputs=1)
    nn.init.zeros_(model[2].weight)
    nn.init.zeros_(model[2].bias)
    assert not nbdebug.diagnose(model, numbers(10.0), nn.MSELoss(), checks=[CHECK], progress=False).findings


def test_cosines_with_temperature_are_fine() -> None:
    """Divided by 0.05 they reach ±20."""
    loader = split(*digit_rows())[0]
    assert not nbdebug.diagnose(Cosine(0.05), loader, nn.CrossEntropyLoss(), checks=[CHECK], progress=False).findings


def test_pooling_behind_a_relu_is_fine() -> None:
    """SqueezeNet's head: non-negative scores that are never cut off exactly."""
    model = nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 10, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    loader = split(*digit_rows())[0]
    assert not nbdebug.diagnose(model, loader, nn.CrossEntropyLoss(), checks=[CHECK], progress=False).findings


class Spike(torch.autograd.Function):
    """A step, with the derivative of a sigmoid."""

    @staticmethod
    def forward(ctx: Any, potential: torch.Tensor) -> torch.Tensor:
        """Return 1 above the threshold."""
        ctx.save_for_backward(potential)
        return (potential > 0).to(potential)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        """Return the gradient through a steep sigmoid."""
        soft = (5 * ctx.saved_tensors[0]).sigmoid()
        return gradient * 5 * soft * (1 - soft)


class Spiking(nn.Module):
    """Spikes at several thresholds, each of which votes for a class."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return threshold × sample × class."""
        potential = self.body(x)
        return torch.stack([Spike.apply(potential - 0.1 * step) for step in range(-5, 5)])  # type: ignore[no-untyped-call]


def test_spikes_are_a_code() -> None:
    """Each output is one of its two bounds; there is no activation to remove."""
    torch.manual_seed(0)

    def loss_fn(spikes: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return sum((nn.functional.cross_entropy(at, labels) for at in spikes), torch.zeros(())) / len(spikes)

    made: dict[str, Any] = {"model": Spiking(), "loader": digits(), "loss_fn": loss_fn}
    assert not nbdebug.diagnose(**made, checks=["clamped-output"], progress=False).alarms
