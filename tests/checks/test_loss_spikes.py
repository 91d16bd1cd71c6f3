"""Trainings whose loss jumps."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader, Subset

from nbdebug.watch.judging import judged
from tests.examples import failing_recording
from tests.real_runs import mlp, watched
from tests.zoo.tabular import digits


@failing_recording("loss-spikes", where="loss")
def class_after_class() -> dict[str, Any]:
    """The data come sorted by label."""
    data = digits().dataset
    order = torch.stack([label for _, label in data]).argsort().tolist()
    model = mlp()
    loader = DataLoader(Subset(data, order), 16)
    return watched(model, torch.optim.SGD(model.parameters(), lr=0.1), batches=loader, steps=400)


@failing_recording("loss-spikes", where="loss")
def broken_batches() -> dict[str, Any]:
    """Now and then a batch arrives a hundred times too large."""
    model = mlp()

    def broken(step: int, batch: Any) -> Any:
        return batch[0] * (100 if step % 60 == 50 else 1), batch[1]  # fixed: return batch

    return watched(model, torch.optim.SGD(model.parameters(), lr=0.05), change=broken, steps=400)


def test_a_hard_batch_now_and_then_is_no_spike() -> None:
    """The next step is as good as the one before."""
    torch.manual_seed(0)
    model = mlp()

    def hard(step: int, batch: Any) -> Any:
        return batch[0], (batch[1] + 1) % 10 if step % 60 == 50 else batch[1]

    recording = watched(model, torch.optim.SGD(model.parameters(), lr=0.05), change=hard, steps=400)["recording"]
    assert judged(recording).result("loss-spikes").status == "clean"
