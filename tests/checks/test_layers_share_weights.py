"""Stacks whose layers are one object."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from tests.checks.networks import alarms
from tests.examples import failing_example
from tests.zoo.tabular import digits

CHECK = "layers-share-weights"


def setup(model: nn.Module) -> dict[str, Any]:
    """Train on digits."""
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


@failing_example(CHECK, where="1")
def repeated_block() -> dict[str, Any]:
    """Four blocks in a Sequential."""
    block = nn.Sequential(nn.Linear(32, 32), nn.ReLU())
    stack = nn.Sequential(*[block] * 4)  # fixed: stack = nn.Sequential(*[copy.deepcopy(block) for _ in range(4)])
    return setup(nn.Sequential(nn.Linear(64, 32), stack, nn.Linear(32, 10)))


class Stack(nn.Module):
    """Layers in a list, with residual paths or heads that are averaged."""

    def __init__(self, layers: Any, width: int = 24, chained: bool = True) -> None:
        super().__init__()
        self.first, self.layers, self.chained = nn.Linear(64, width), nn.ModuleList(layers), chained
        self.last = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Go through all layers, or average what they give."""
        x = self.first(x)
        if not self.chained:
            return self.last(torch.stack([layer(x) for layer in self.layers]).mean(0))
        for layer in self.layers:
            x = x + layer(x).relu()
        return self.last(x)


@failing_example(CHECK, where="layers")
def repeated_in_a_list() -> dict[str, Any]:
    """Residual layers."""
    return setup(Stack([nn.Linear(24, 24)] * 3))


@failing_example(CHECK, where="layers")
def repeated_transformer_layer() -> dict[str, Any]:
    """An encoder's layer, three times."""

    class Tokens(nn.TransformerEncoderLayer):
        def forward(self, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            return super().forward(x[:, None], *args, **kwargs)[:, 0]

    return setup(Stack([Tokens(24, 4, 32, batch_first=True)] * 3))


@pytest.mark.parametrize(
    "make",
    [
        lambda: setup(Stack([nn.Linear(24, 24) for _ in range(3)])),
        lambda: setup(Stack([nn.Linear(24, 24)] * 3, chained=False)),
        lambda: setup(Stack([nn.ReLU()] * 3)),
        lambda: setup(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), copy.deepcopy(nn.Linear(64, 64)), nn.Linear(64, 10))),
        lambda: setup(Recurrent()),
    ],
    ids=["copies", "heads", "activations", "plain", "recurrent"],
)
def test_silent(make: Any) -> None:
    assert not alarms(CHECK, **make())


class Recurrent(nn.Module):
    """One layer called several times, as is meant."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.again, self.last = nn.Linear(64, 16), nn.Linear(16, 16), nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Call it four times."""
        x = self.first(x)
        for _ in range(4):
            x = self.again(x).tanh()
        return self.last(x)
