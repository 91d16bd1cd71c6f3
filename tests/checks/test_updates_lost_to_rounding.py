"""Updates smaller than the rounding of the weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.core.control import Control
from nbdebug.core.remedy import Patch, Remedy
from nbdebug.sandbox import make_sandbox
from nbdebug.setup import Setup
from tests.checks.networks import WIDTH, alarms, loader
from tests.examples import failing_example

CHECK = "updates-lost-to-rounding"


def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """Cast the inputs to the precision of the weights."""
    optimizer.zero_grad()
    dtype = next(model.parameters()).dtype
    loss = nn.functional.cross_entropy(model(batch[0].to(dtype)).float(), batch[1])
    loss.backward()
    optimizer.step()
    return loss


def setup(dtype: torch.dtype, lr: float, make: Any = torch.optim.AdamW, *layers: nn.Module) -> dict[str, Any]:
    """Train in this precision."""
    model = nn.Sequential(*(layers or (nn.Linear(WIDTH, 32), nn.ReLU(), nn.Linear(32, 2)))).to(dtype)
    optimizer = make(model.parameters(), lr=lr)
    return {"model": model, "loader": loader(targets=True), "optimizer": optimizer, "train_step": step}


@failing_example(CHECK, where="optimizer")
def fine_tuning_in_bfloat16() -> dict[str, Any]:
    """A rate for fine-tuning."""
    return setup(torch.bfloat16, 1e-6)  # fixed: return setup(torch.float32, 1e-6)


@failing_example(CHECK, where="optimizer")
def small_rate_in_half_precision() -> dict[str, Any]:
    """Plain gradient descent."""
    layers = nn.Linear(WIDTH, 16), nn.LayerNorm(16), nn.Tanh(), nn.Linear(16, 2)
    return setup(torch.float16, 1e-6, torch.optim.SGD, *layers)


@failing_example(CHECK, where="optimizer")
def convolution_in_bfloat16() -> dict[str, Any]:
    """Another kind of layer."""
    layers = nn.Unflatten(1, (1, WIDTH)), nn.Conv1d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * (WIDTH - 2), 2)
    return setup(torch.bfloat16, 1e-5, torch.optim.SGD, *layers)


class Cast(nn.Module):
    """A network that computes in the precision of its weights, for a loss in float32."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(WIDTH, 32), nn.ReLU(), nn.Linear(32, 2)).to(dtype)
        self.dtype = dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Cast the inputs, and the outputs back."""
        return self.net(x.to(self.dtype)).float()


def without_a_step(dtype: torch.dtype, lr: float) -> dict[str, Any]:
    """Leave the step to the book."""
    model = Cast(dtype)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    return {"model": model, "loader": loader(targets=True), "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


@failing_example(CHECK, where="optimizer")
def bfloat16_without_a_step_of_ones_own() -> dict[str, Any]:
    """Model, loss and optimizer alone."""
    return without_a_step(torch.bfloat16, 1e-6)


def test_full_precision_updates_are_not_lost() -> None:
    """The fix: the optimizer updates float32 copies, which are rounded into the model."""
    setup = Setup(**without_a_step(torch.bfloat16, 1e-4))
    sandbox = make_sandbox(Remedy("", "", Patch("full-precision-updates")).apply(setup), Control())
    before = [p.detach().clone() for p in sandbox.model.parameters()]
    for _ in range(60):
        sandbox.plain_step(sandbox.batch())
    changed = [float((p != b).double().mean()) for p, b in zip(sandbox.model.parameters(), before, strict=True)]
    assert min(changed) > 0.5, changed


@pytest.mark.parametrize("lr", [1e-2, 3e-3])
def test_silent_without_a_step(lr: float) -> None:
    assert not alarms(CHECK, **without_a_step(torch.bfloat16, lr))
    assert not alarms(CHECK, **without_a_step(torch.float32, 1e-6))


@pytest.mark.parametrize(
    ("dtype", "lr"), [(torch.float32, 1e-6), (torch.bfloat16, 1e-2), (torch.float16, 1e-3), (torch.float64, 1e-9)]
)
def test_silent(dtype: torch.dtype, lr: float) -> None:
    assert not alarms(CHECK, **setup(dtype, lr))


def test_silent_with_master_weights() -> None:
    """The optimizer updates float32 copies, which are written back."""
    model = nn.Linear(WIDTH, 2).to(torch.bfloat16)
    masters = [nn.Parameter(p.detach().float()) for p in model.parameters()]
    optimizer = torch.optim.Adam(masters, 1e-5)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        loss = nn.functional.cross_entropy(model(batch[0].bfloat16()).float(), batch[1])
        model.zero_grad()
        loss.backward()
        for master, parameter in zip(masters, model.parameters(), strict=True):
            master.grad = parameter.grad.float()
        optimizer.step()
        with torch.no_grad():
            for master, parameter in zip(masters, model.parameters(), strict=True):
                parameter.copy_(master)
        return loss

    made = {"model": model, "loader": loader(targets=True), "optimizer": optimizer, "train_step": step}
    assert not alarms(CHECK, **made)
