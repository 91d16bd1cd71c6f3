"""Trainings whose weights never come to rest."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.examples import failing_recording
from tests.real_runs import mlp, watched


@failing_recording("weights-growing")
def loss_without_a_floor() -> dict[str, Any]:
    """The score of the right class is pushed up without end."""

    def push(output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return -output.gather(1, labels[:, None]).mean()  # fixed: return nn.functional.cross_entropy(output, labels)

    model = mlp()
    return watched(model, torch.optim.Adam(model.parameters(), lr=1e-2), steps=300, loss_fn=push)


@failing_recording("weights-growing")
def decay_with_the_wrong_sign() -> dict[str, Any]:
    """What should shrink the weights lets them grow."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def grow(step: int, batch: Any) -> Any:
        with torch.no_grad():
            for layer in model:
                if isinstance(layer, nn.Linear):
                    layer.weight.mul_(1.01)
        return batch

    return watched(model, optimizer, steps=300, change=grow)
