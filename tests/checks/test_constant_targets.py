"""Failing examples with nothing to learn."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import diabetes, digit_rows


def model(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs))


def setup(inputs: torch.Tensor, targets: torch.Tensor, net: nn.Module, loss_fn: Any) -> dict[str, Any]:
    return {"model": net, "loader": DataLoader(TensorDataset(inputs, targets), 32), "loss_fn": loss_fn}


@failing_example("constant-targets", where="batch[1]")
def one_class_left() -> dict[str, Any]:
    """A filter that left the zeros."""
    rows, labels = digit_rows()
    return setup(rows[labels == 0], labels[labels == 0], model(64, 10), nn.CrossEntropyLoss())


@failing_example("constant-targets", where="batch[1]")
def overwritten_column() -> dict[str, Any]:
    """A regression onto a number that is always the same."""
    rows, target = diabetes()
    return setup(rows, torch.full_like(target, 0.7), model(10, 1), nn.MSELoss())


@failing_example("constant-targets", where="batch[1]")
def empty_masks() -> dict[str, Any]:
    """Masks that were never drawn."""
    images = torch.rand(60, 1, 8, 8)
    return setup(images, torch.zeros(60, 8, 8).long(), nn.Conv2d(1, 2, 3, padding=1), nn.CrossEntropyLoss())
    # fixed: return setup(images, (images[:, 0] > 0.5).long(), nn.Conv2d(1, 2, 3, padding=1), nn.CrossEntropyLoss())


def severities(**setup: Any) -> list[str]:
    return [f.severity for f in nbdebug.diagnose(**setup, checks=["constant-targets"], progress=False).findings]


def test_varied_targets_are_clean() -> None:
    rows, labels = digit_rows()
    assert severities(**setup(rows, labels, model(64, 10), nn.CrossEntropyLoss())) == []


def test_a_target_that_nobody_looks_at_is_noted_only() -> None:
    rows, labels = digit_rows()

    def rebuild(net: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        return (net(batch[0]) - batch[0]).square().mean()

    loader = DataLoader(TensorDataset(rows, torch.zeros_like(labels)), 32)
    assert severities(model=model(64, 64), loader=loader, compute_loss=rebuild) == ["note"]
