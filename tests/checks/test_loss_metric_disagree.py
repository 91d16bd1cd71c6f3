"""Losses that want something else than the task."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import nbdebug
from tests import loops
from tests.clinic import patient
from tests.zoo.tabular import digits


def trained(loss_fn: Any) -> dict[str, Any]:
    """Give a model that already answers well, handed on with another loss."""
    made = loops.setup(None, 3e-3)
    for _ in range(3):
        for batch in made["loader"]:
            loops.right(made["model"], batch, made["loss_fn"], made["optimizer"])
    optimizer = torch.optim.Adam(made["model"].parameters(), lr=1e-2)
    return {"model": made["model"], "loader": digits(), "loss_fn": loss_fn, "optimizer": optimizer}


@patient("loss-metric-disagree", where="loss_fn")
def pushed_away_from_the_answer() -> dict[str, Any]:
    """The loss rewards the right class for being unlikely."""

    def loss_fn(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return output.softmax(1).gather(1, target[:, None]).mean()

    return trained(loss_fn)


@patient("loss-metric-disagree", where="loss_fn")
def labels_shifted_in_the_loss() -> dict[str, Any]:
    """The loss compares with the label of another class."""
    cross = nn.CrossEntropyLoss()
    return trained(lambda output, target: cross(output, (target + 1) % 10))
    # cured: return trained(lambda output, target: cross(output, target))


def test_a_usual_loss_agrees() -> None:
    """Cross-entropy and accuracy go together."""
    report = nbdebug.diagnose(**loops.setup(None, 3e-3), checks=["loss-metric-disagree"], progress=False)
    assert report.results[0].status == "clean"
