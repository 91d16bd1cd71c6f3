"""Trainings that do not get anywhere."""

from __future__ import annotations

from typing import Any

import torch

from nbdebug.watch.judging import judged
from tests.examples import failing_recording
from tests.real_runs import mlp, watched


@failing_recording("loss-flat", where="loss")
def labels_drawn_at_random() -> dict[str, Any]:
    """There is nothing to learn."""
    model = mlp()

    def random(step: int, batch: Any) -> Any:
        return batch[0], torch.randint(0, 10, batch[1].shape)

    return watched(model, torch.optim.Adam(model.parameters(), lr=1e-4), change=random)


@failing_recording("loss-flat", where="loss")
def steps_far_too_small() -> dict[str, Any]:
    """A slipped digit in the learning rate."""
    model = mlp()
    return watched(model, torch.optim.Adam(model.parameters(), lr=1e-8))
    # fixed: return watched(model, torch.optim.Adam(model.parameters(), lr=1e-3))


def test_a_training_that_was_finished_before_is_not_flat() -> None:
    """What has been learned scatters from batch to batch, at a level that has nothing to do with guessing."""
    torch.manual_seed(0)
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    watched(model, optimizer, steps=500)
    assert judged(watched(model, optimizer, steps=300)["recording"]).result("loss-flat").status == "clean"


def test_a_warm_up_is_waited_for() -> None:
    torch.manual_seed(0)
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)

    def warm(step: int, batch: Any) -> Any:
        optimizer.param_groups[0]["lr"] = 1e-6 * step
        return batch

    assert judged(watched(model, optimizer, change=warm)["recording"]).result("loss-flat").status == "skipped"
