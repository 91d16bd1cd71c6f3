"""Failing examples whose outputs are compared with the targets of other samples."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import cancer, diabetes, digit_rows, friedman


def mlp(inputs: int, *last: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, 1), *last)


def setup(model: nn.Module, loss_fn: Any, *columns: torch.Tensor, **more: Any) -> dict[str, Any]:
    return {"model": model, "loader": DataLoader(TensorDataset(*columns), 32, shuffle=True), "loss_fn": loss_fn, **more}


@failing_example("incompatible-target-shape", where="batch[1]")
def column_against_row() -> dict[str, Any]:
    """Outputs (N, 1) and targets (N,) under the mean squared error."""
    rows, target = diabetes()
    return setup(mlp(10), nn.MSELoss(), rows, target[:, 0])


@failing_example("incompatible-target-shape", where="batch[1]")
def row_against_column() -> dict[str, Any]:
    """The other way round, under the absolute error."""
    return setup(mlp(10, nn.Flatten(0)), nn.L1Loss(), *friedman())


@failing_example("incompatible-target-shape", where="batch[1]")
def by_hand() -> dict[str, Any]:
    """A loss of one's own, which warns of nothing."""
    rows, target = friedman()
    return setup(mlp(10), lambda output, y: (output - y).abs().clamp(max=3).mean(), rows, target[:, 0])


def binary_by_hand(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return -(target * output.log() + (1 - target) * (1 - output).log()).mean()


@failing_example("incompatible-target-shape", where="batch[1]")
def binary_cross_entropy_by_hand() -> dict[str, Any]:
    """Probabilities (N, 1) and labels (N,)."""
    rows, labels = cancer()
    return setup(mlp(30, nn.Sigmoid()), binary_by_hand, rows, labels[:, 0])


@failing_example("incompatible-target-shape", where="batch[1]")
def masks_without_channel() -> dict[str, Any]:
    """Maps (N, 1, H, W) against masks (N, H, W)."""
    images = torch.rand(64, 1, 8, 8)
    return setup(nn.Conv2d(1, 1, 3, padding=1), nn.SmoothL1Loss(), images, images[:, 0] * 2 - 1)
    # fixed: return setup(nn.Conv2d(1, 1, 3, padding=1), nn.SmoothL1Loss(), images, images * 2 - 1)


@failing_example("incompatible-target-shape", where="batch[1]")
def refused_outright() -> dict[str, Any]:
    """Binary cross-entropy does not stretch, and fails."""
    rows, labels = cancer()
    return setup(mlp(30), nn.BCEWithLogitsLoss(), rows, labels[:, 0])


@failing_example("incompatible-target-shape", where="batch[1]")
def inside_compute_loss() -> dict[str, Any]:
    """The same, in a function of one's own that runs the model."""
    rows, target = friedman()

    def compute(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        return nn.functional.huber_loss(model(batch[0]), batch[1])

    return setup(mlp(10), None, rows, target[:, 0], compute_loss=compute)


def status(model: nn.Module, loss_fn: Any, *columns: torch.Tensor, **more: Any) -> str:
    report = nbdebug.diagnose(
        **setup(model, loss_fn, *columns, **more), checks=["incompatible-target-shape"], progress=False
    )
    return report.result("incompatible-target-shape").status


def quantiles(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    error, levels = target - output, torch.tensor([0.1, 0.5, 0.9])
    return torch.maximum(levels * error, (levels - 1) * error).mean()


def test_shapes_that_are_meant_are_clean() -> None:
    rows, target = friedman()
    assert status(mlp(10), nn.MSELoss(), rows, target) == "clean"
    assert status(mlp(10, nn.Flatten(0)), nn.MSELoss(), rows, target[:, 0]) == "clean"
    assert status(mlp(10), lambda o, y: (o.squeeze(1) - y).square().mean(), rows, target[:, 0]) == "clean"
    pixels, labels = digit_rows()
    classes = nn.Sequential(nn.Linear(64, 10))
    assert status(classes, nn.CrossEntropyLoss(), pixels, labels) == "clean"
    assert status(classes, nn.MultiMarginLoss(), pixels, labels) == "clean"
    assert status(nn.Linear(10, 3), quantiles, rows, target) == "clean"


def test_losses_that_compare_samples_are_clean() -> None:
    pixels, labels = digit_rows()

    def contrast(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        near = (target[:, None] == target[None]).float()
        return ((output @ output.t()).sigmoid() - near).square().mean()

    def ranking(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        order = (target[:, None] - target[None]).sign()
        scores = output.squeeze(1)
        return torch.relu(1 - order * (scores[:, None] - scores[None])).mean()

    assert status(nn.Linear(64, 8), contrast, pixels, labels) == "clean"
    rows, target = friedman()
    assert status(mlp(10), ranking, rows, target[:, 0]) == "clean"
    weighted = nn.CrossEntropyLoss(weight=torch.arange(1.0, 11.0))
    assert status(nn.Linear(64, 10), weighted, pixels, labels) == "clean"
