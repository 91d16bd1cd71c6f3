"""Failing examples whose first layers get no gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.zoo.tabular import digits


def deep(layers: int, act: type[nn.Module], recipe: Any = None, width: int = 64) -> nn.Sequential:
    """Return a plain deep network for digits."""
    parts: list[nn.Module] = [nn.Linear(64, width), act()]
    for _ in range(layers - 2):
        parts += [nn.Linear(width, width), act()]
    model = nn.Sequential(*parts, nn.Linear(width, 10))
    for module in model:
        if recipe is not None and isinstance(module, nn.Linear):
            recipe(module.weight)
    return model


def setup(model: nn.Module, optimizer: Any = None) -> dict[str, Any]:
    """Look at digits."""
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


@failing_example("vanishing-gradients", where="0")
def deep_sigmoid() -> dict[str, Any]:
    """Twenty layers of sigmoids."""
    return setup(deep(20, nn.Sigmoid))  # fixed: return setup(deep(20, nn.ReLU, nn.init.kaiming_normal_))


@failing_example("vanishing-gradients", where="0")
def deep_tanh() -> dict[str, Any]:
    """Thirty layers of tanh from torch's own start."""
    return setup(deep(30, nn.Tanh))


class Squeezed(nn.Module):
    """Convolutions with a sigmoid by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3, padding=1)
        self.body = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(10))
        self.last = nn.Linear(512, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Squash after every convolution."""
        x = self.first(x.unflatten(1, (1, 8, 8))).sigmoid()
        for layer in self.body:
            x = layer(x).sigmoid()
        return self.last(x.flatten(1))


@failing_example("vanishing-gradients", where="first")
def convolutions_with_sigmoids() -> dict[str, Any]:
    """Eleven convolutions, trained with plain SGD."""
    model = Squeezed()
    return setup(model, torch.optim.SGD(model.parameters(), 0.05))


def alarms(model: nn.Module, check: str = "vanishing-gradients") -> list[nbdebug.Finding]:
    """Run one check alone."""
    report = nbdebug.diagnose(**setup(model), checks=[check], progress=False)
    assert report.results[0].status != "crashed", report.results[0]
    return report.alarms


class Residual(nn.Module):
    """A residual block with a start at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.inner, self.outer = nn.LayerNorm(64), nn.Linear(64, 64), nn.Linear(64, 64)
        nn.init.zeros_(self.outer.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add the branch."""
        return x + self.outer(self.norm(self.inner(x)).relu())


HEALTHY = {
    "shallow sigmoids": lambda: deep(4, nn.Sigmoid, nn.init.xavier_uniform_),
    "eight layers of ReLU": lambda: deep(8, nn.ReLU),
    "twenty layers from He's start": lambda: deep(20, nn.ReLU, nn.init.kaiming_normal_),
    "fifty residual layers from zero": lambda: nn.Sequential(*(Residual() for _ in range(25)), nn.Linear(64, 10)),
}


def test_healthy_depth_is_silent() -> None:
    """Depth alone is no illness, for any of the three checks of the flow."""
    for name, make in HEALTHY.items():
        for check in ("vanishing-gradients", "exploding-gradients", "activations-off-scale"):
            assert not alarms(make(), check), name
