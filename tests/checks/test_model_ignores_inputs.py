"""Models that learn without looking."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import nbdebug
from tests import loops
from tests.examples import failing_example
from tests.zoo.tabular import digits


class Blind(nn.Module):
    """A model whose inputs are lost on the way, so that only the last bias learns."""

    def __init__(self) -> None:
        super().__init__()
        self.body = loops.mlp()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply the input away."""
        return self.body(x * 0)  # fixed: return self.body(x)


@failing_example("model-ignores-inputs", where="model")
def inputs_lost() -> dict[str, Any]:
    """The loss falls to what the class frequencies allow, with and without inputs."""
    model = Blind()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


@failing_example("model-ignores-inputs", where="model")
def answers_by_another_way() -> dict[str, Any]:
    """The loss hands the targets to the model."""

    class Told(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.told = loops.mlp(), nn.Linear(10, 10)

        def forward(self, x: torch.Tensor, hint: torch.Tensor | None = None) -> torch.Tensor:
            output: torch.Tensor = self.body(x)
            return output if hint is None else output + self.told(nn.functional.one_hot(hint, 10).float())

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> Any:
        return loss_fn(model(batch[0], batch[1]), batch[1])

    model = Told()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
    return {
        "model": model,
        "loader": digits(),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "compute_loss": compute_loss,
    }


def test_a_plain_network_needs_its_inputs() -> None:
    """What a healthy network learns is gone without the inputs."""
    report = nbdebug.diagnose(**loops.setup(), checks=["model-ignores-inputs"], progress=False)
    assert report.results[0].status == "clean"


def test_skipped_without_targets() -> None:
    """An autoencoder's target is its input."""
    x = torch.randn(32, 8)
    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 8))
    report = nbdebug.diagnose(model, [x], checks=["model-ignores-inputs"], progress=False)
    assert report.results[0].status == "skipped"
