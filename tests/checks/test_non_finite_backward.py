"""Failing examples whose gradients are born bad behind a clean forward pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.zoo.tabular import digits


class RootOfSquares(nn.Module):
    """A length by hand, of a vector that may be 0."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 16), nn.Linear(1, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Measure hidden values that are 0 where the first pixel is, which it always is."""
        hidden = self.first(x) * x[:, :1]
        return self.last(hidden.square().sum(1, keepdim=True).sqrt())


class SafeLog(nn.Module):
    """A logarithm that is guarded by where, in vain."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return 0 where there is nothing to take the logarithm of."""
        scaled = x * self.scale
        return torch.where(scaled > 0, torch.log(scaled), torch.zeros_like(scaled))


@failing_example("non-finite-backward", where="model")
def root_of_zero() -> dict[str, Any]:
    """The slope of a root at 0 is infinite."""
    return {"model": RootOfSquares(), "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


@failing_example("non-finite-backward", where="0")
def masked_by_where() -> dict[str, Any]:
    """Zero times infinity is NaN, and where does not help."""
    model = nn.Sequential(SafeLog(), nn.Linear(64, 10))
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


def angle(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The angle to a direction that the output has exactly."""
    unit = output / output.norm(dim=1, keepdim=True).detach()
    return torch.acos((unit * unit.detach()).sum(1).clamp(-1, 1)).mean()
    # fixed: return torch.acos((unit * unit.detach()).sum(1).clamp(-1 + 1e-6, 1 - 1e-6)).mean()


@failing_example("non-finite-backward", where="loss_fn")
def angle_of_zero() -> dict[str, Any]:
    """The slope of the arc cosine at 1 is infinite."""
    return {"model": nn.Linear(64, 10).double(), "loader": doubled(), "loss_fn": angle}


def doubled() -> list[Any]:
    """Return one batch in double precision."""
    return [(torch.rand(32, 64, dtype=torch.float64), torch.zeros(32, dtype=torch.long))]


def found(**setup: Any) -> Any:
    """Run the check alone."""
    return nbdebug.diagnose(**setup, checks=["non-finite-backward"], progress=False).result("non-finite-backward")


def test_names_operation_line_and_values() -> None:
    says = found(**root_of_zero()).findings[0].says
    assert "`sqrt`" in says and "result = 0" in says and "test_non_finite_backward.py" in says and "sqrt()" in says
    says = found(**masked_by_where()).findings[0].says
    assert "`log`" in says and "self = 0" in says


def test_guarded_root_is_fine() -> None:
    class Guarded(RootOfSquares):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = self.first(x) * x[:, :1]
            return self.last(hidden.square().sum(1, keepdim=True).clamp_min(1e-8).sqrt())

    assert found(model=Guarded(), loader=digits(), loss_fn=nn.CrossEntropyLoss()).status == "clean"
