"""Failing examples whose batches hold one class each."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Sampler, TensorDataset

import nbdebug
from tests.examples import failing_example
from tests.zoo.losses import rare_eights
from tests.zoo.samples import digit_rows


def setup(loader: Any) -> dict[str, Any]:
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    return {"model": model, "loader": loader, "loss_fn": nn.CrossEntropyLoss()}


class ByClass(Sampler[list[int]]):
    """Groups samples by class, and shuffles the groups."""

    def __init__(self, labels: torch.Tensor, size: int) -> None:
        order = labels.argsort()
        parts = [order[labels[order] == c] for c in labels.unique()]
        self.batches = [b.tolist() for part in parts for b in part.split(size)]

    def __iter__(self) -> Iterator[list[int]]:
        random.shuffle(self.batches)
        yield from self.batches


@failing_example("single-class-batches", where="loader")
def batches_shuffled_instead_of_samples() -> dict[str, Any]:
    """A batch sampler that keeps classes together."""
    rows, labels = digit_rows()
    return setup(DataLoader(TensorDataset(rows, labels), batch_sampler=ByClass(labels, 16)))


@failing_example("single-class-batches", where="loader")
def one_file_a_batch() -> dict[str, Any]:
    """Files of one class each, given as batches."""
    rows, labels = digit_rows()
    chosen = [part for c in (3, 1, 4, 1, 5, 9, 2, 6) for part in (labels == c).nonzero().flatten()[:64].split(32)]
    # fixed: chosen = torch.randperm(len(labels)).split(32)
    random.Random(0).shuffle(chosen)  # fixed:
    return setup([(rows[part], labels[part]) for part in chosen])


def status(loader: Any) -> str:
    report = nbdebug.diagnose(**setup(loader), checks=["single-class-batches"], progress=False)
    return report.result("single-class-batches").status


def test_shuffled_batches_are_clean() -> None:
    assert status(DataLoader(TensorDataset(*digit_rows()), 16, shuffle=True)) == "clean"


def test_a_rare_class_leaves_many_batches_of_one() -> None:
    assert status(DataLoader(TensorDataset(*rare_eights()), 8, shuffle=True)) == "clean"


def test_one_cause_is_named_for_grouped_batches() -> None:
    report = nbdebug.diagnose(
        **batches_shuffled_instead_of_samples(), checks=["unshuffled-loader", "single-class-batches"], progress=False
    )
    assert [f.check for f in report.alarms] == ["single-class-batches"]
