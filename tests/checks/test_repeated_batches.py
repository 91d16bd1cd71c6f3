"""Failing examples whose loader repeats itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, SequentialSampler, TensorDataset

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import digit_rows


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def setup(loader: Any) -> dict[str, Any]:
    return {"model": model(), "loader": loader, "loss_fn": nn.CrossEntropyLoss()}


class Restarted(IterableDataset[Any]):
    """Opens the file anew for every batch."""

    def __iter__(self) -> Iterator[Any]:
        rows, labels = digit_rows()
        for _ in range(20):
            yield from ((rows[i], labels[i]) for i in range(32))


@failing_example("repeated-batches", where="loader")
def stream_restarted_for_every_batch() -> dict[str, Any]:
    """The stream begins again after every batch."""
    return setup(DataLoader(Restarted(), 32))


class Stuck(BatchSampler):
    """Counts batches, and then uses the wrong counter."""

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(len(self)):
            yield list(range(self.batch_size))


@failing_example("repeated-batches", where="loader")
def sampler_that_does_not_move_on() -> dict[str, Any]:
    """A batch sampler that always yields the first indices."""
    data = TensorDataset(*digit_rows())
    return setup(DataLoader(data, batch_sampler=Stuck(SequentialSampler(data), 64, False)))


@failing_example("repeated-batches", where="loader")
def one_batch_kept_for_a_test() -> dict[str, Any]:
    """The batch that was kept to try something is still in use."""
    rows, labels = digit_rows()
    return setup([(rows[:32], labels[:32])] * 40)
    # fixed: return setup(list(zip(rows.split(32), labels.split(32), strict=True)))


def status(loader: Any) -> Any:
    return nbdebug.diagnose(**setup(loader), checks=["repeated-batches"], progress=False).result("repeated-batches")


def test_usual_loaders_are_clean() -> None:
    rows, labels = digit_rows()
    assert status(DataLoader(TensorDataset(rows, labels), 32, shuffle=True)).status == "clean"
    assert status(DataLoader(TensorDataset(rows, labels), 32)).status == "clean"
    assert status([(rows, labels)]).status == "skipped"
    tiny = torch.eye(64)[:2].repeat(40, 1)
    assert status(DataLoader(TensorDataset(tiny, torch.zeros(80).long()), 8)).status == "skipped"


@failing_example("repeated-batches", where="train_step")
def step_with_a_batch_of_its_own() -> dict[str, Any]:
    """Each call opens the loader anew, and takes the first batch."""
    loader = DataLoader(TensorDataset(*digit_rows()), 32)

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
        x, y = next(iter(loader))  # fixed: x, y = batch
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return {**setup(DataLoader(TensorDataset(*digit_rows()), 32, shuffle=True)), "train_step": step}
