"""Failing examples that hold the same samples many times."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import cancer, digit_images, digit_rows, iris, seeded, topic_tokens


def model(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs))


def setup(rows: torch.Tensor, labels: torch.Tensor, loss_fn: Any = None, **options: Any) -> dict[str, Any]:
    outputs = 1 if loss_fn is not None else 10
    loader = DataLoader(TensorDataset(rows, labels), 32, **(options or {"shuffle": True}))
    return {"model": model(rows[0].numel(), outputs), "loader": loader, "loss_fn": loss_fn or nn.CrossEntropyLoss()}


@failing_example("duplicate-samples", where="batch[0]")
def pictures_added_twice() -> dict[str, Any]:
    """Two folders with the same pictures."""
    images, labels = digit_images()
    return setup(images.repeat(2, 1, 1, 1), labels.repeat(2))  # fixed: return setup(images, labels)


@failing_example("duplicate-samples", where="batch[0]")
def table_joined_wrongly() -> dict[str, Any]:
    """A join that repeated many rows."""
    rows, labels = cancer()
    chosen = torch.randint(0, 200, (900,), generator=seeded())
    return setup(torch.cat([rows, rows[chosen]]), torch.cat([labels, labels[chosen]]), nn.BCEWithLogitsLoss())


@failing_example("duplicate-samples", where="batch[0]")
def large_set_seen_in_part() -> dict[str, Any]:
    """Every sample of a large data set four times, of which a part is read."""
    rows = torch.randn(10_000, 12, generator=seeded())
    return setup(rows.repeat(4, 1), torch.arange(40_000) % 10)


def alarms(setup: dict[str, Any]) -> list[str]:
    return [str(f) for f in nbdebug.diagnose(**setup, checks=["duplicate-samples"], progress=False).alarms]


def test_discrete_tables_repeat_honestly() -> None:
    few = torch.randint(0, 3, (2000, 5), generator=seeded()).float()
    assert not alarms(setup(few, torch.arange(2000) % 10))
    groups = nn.functional.one_hot(torch.randint(0, 40, (2000,), generator=seeded())).float()
    assert not alarms(setup(groups, torch.arange(2000) % 10))
    linked = torch.randint(0, 2, (2000, 1), generator=seeded()).float().repeat(1, 30)
    linked[:, :10] = torch.randint(0, 2, (2000, 10), generator=seeded(1)).float()
    assert not alarms(setup(linked, torch.arange(2000) % 10))


def test_usual_data_and_weighted_samplers_are_healthy() -> None:
    assert not alarms(setup(*digit_rows()))
    assert not alarms(setup(*iris()))
    rows, labels = digit_rows()
    weights = torch.rand(len(rows), generator=seeded()) ** 3
    assert not alarms(setup(rows, labels, sampler=WeightedRandomSampler(weights, 4 * len(rows))))


def test_repeating_a_rare_class_is_noted_only() -> None:
    rows, labels = digit_rows()
    rare, common = (labels == 8).nonzero().flatten()[:50], (labels == 1).nonzero().flatten()
    order = torch.cat([common, rare.repeat(4)])
    assert not alarms(setup(rows[order], labels[order]))


def test_short_texts_are_healthy() -> None:
    tokens, _, topics = topic_tokens()
    net = nn.Sequential(nn.Embedding(40, 8), nn.Flatten(), nn.Linear(160, 3))
    loader = DataLoader(TensorDataset(tokens, topics), 32)
    assert not alarms({"model": net, "loader": loader, "loss_fn": nn.CrossEntropyLoss()})
