"""Failing examples with classes that hardly occur."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

import nbdebug
from tests.examples import failing_example
from tests.zoo.losses import focal, rare_eights
from tests.zoo.samples import digit_rows, wine


def model(outputs: int, inputs: int = 64) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs))


def setup(loss_fn: Any, outputs: int = 2, as_column: bool = False, **options: Any) -> dict[str, Any]:
    rows, labels = rare_eights()
    labels = labels.float()[:, None] if as_column else labels
    loader = DataLoader(TensorDataset(rows, labels), 64, **(options or {"shuffle": True}))
    return {"model": model(outputs), "loader": loader, "loss_fn": loss_fn}


@failing_example("class-imbalance", where="batch[1]")
def rare_class_and_cross_entropy() -> dict[str, Any]:
    """50 against 1,623."""
    return setup(nn.CrossEntropyLoss())


@failing_example("class-imbalance", where="batch[1]")
def rare_class_and_binary_cross_entropy() -> dict[str, Any]:
    """The same with one output."""
    return setup(nn.BCEWithLogitsLoss(), 1, as_column=True)


@failing_example("class-imbalance", where="batch[1]")
def one_rare_class_of_ten() -> dict[str, Any]:
    """Ten classes, one of which has four samples."""
    rows, labels = digit_rows()
    keep = torch.cat([(labels != 3).nonzero().flatten(), (labels == 3).nonzero().flatten()[:4]])
    # fixed: keep = torch.arange(len(labels))
    loader = DataLoader(TensorDataset(rows[keep], labels[keep]), 64, shuffle=True)
    return {"model": model(10), "loader": loader, "loss_fn": nn.CrossEntropyLoss(label_smoothing=0.1)}


def alarms(setup: dict[str, Any]) -> list[str]:
    return [str(f) for f in nbdebug.diagnose(**setup, checks=["class-imbalance"], progress=False).alarms]


def test_a_loss_that_makes_up_for_it_is_healthy() -> None:
    assert not alarms(setup(nn.CrossEntropyLoss(weight=torch.tensor([0.5, 16.0]))))
    assert not alarms(setup(nn.BCEWithLogitsLoss(pos_weight=torch.tensor(30.0)), 1, as_column=True))
    assert not alarms(setup(focal))


def weighted_by_hand(net: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    rows, labels = batch
    each = nn.functional.cross_entropy(net(rows), labels, reduction="none")
    return (each * (1 + 30 * labels)).mean()


def test_weights_inside_compute_loss_are_seen() -> None:
    assert not alarms(setup(None) | {"compute_loss": weighted_by_hand})


def test_a_sampler_that_makes_up_for_it_is_healthy() -> None:
    _, labels = rare_eights()
    sampler = WeightedRandomSampler((1.0 / torch.bincount(labels).double())[labels], len(labels))
    assert not alarms(setup(nn.CrossEntropyLoss(), sampler=sampler))


def test_balanced_and_tiny_data_are_healthy() -> None:
    rows, labels = digit_rows()
    assert not alarms({"model": model(10), "loader": DataLoader(TensorDataset(rows, labels), 64)})
    assert not alarms({"model": model(3, 13), "loader": DataLoader(TensorDataset(*wine()), 16)})
    few = torch.cat([torch.zeros(50), torch.ones(2)]).long()
    assert not alarms({"model": model(2), "loader": DataLoader(TensorDataset(rows[:52], few), 16)})
