"""Trainings that were stopped too soon."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from nbdebug.watch.judging import judged
from tests.examples import failing_recording
from tests.real_runs import mlp, watched


@failing_recording("still-improving", where="loss")
def slow_descent() -> dict[str, Any]:
    """A small learning rate, on a good way."""
    model = mlp()
    return watched(model, torch.optim.SGD(model.parameters(), lr=0.02), steps=300)


@failing_recording("still-improving", where="loss")
def still_early() -> dict[str, Any]:
    """Adam after a few epochs."""
    model = mlp(nn.Dropout(0.5))
    return watched(model, torch.optim.Adam(model.parameters(), lr=5e-4), steps=200)
    # fixed: return watched(model, torch.optim.Adam(model.parameters(), lr=1e-2), steps=600)


def test_it_is_a_note_and_ends_when_nothing_more_comes() -> None:
    torch.manual_seed(0)
    assert [f.severity for f in judged(slow_descent()["recording"]).result("still-improving").findings] == ["note"]
    model = mlp()

    def random(step: int, batch: Any) -> Any:
        return batch[0], torch.randint(0, 10, batch[1].shape)

    recording = watched(model, torch.optim.Adam(model.parameters()), change=random)["recording"]
    assert judged(recording).result("still-improving").status == "clean"
