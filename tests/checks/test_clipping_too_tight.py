"""Clipping that leaves nothing, and clipping as it is used."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from tests import loops
from tests.examples import failing_example


@failing_example("clipping-too-tight", where="train_step")
def norm_clipped_to_nothing() -> dict[str, Any]:
    """The norm is cut to a millionth."""
    return loops.setup(loops.clipped(1e-6), 0.1, torch.optim.SGD)
    # fixed: return loops.setup(loops.clipped(1.0), 0.1, torch.optim.SGD)


@failing_example("clipping-too-tight", where="train_step")
def values_clipped_to_nothing() -> dict[str, Any]:
    """Every element is cut to a ten-millionth."""

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 1e-7)
        optimizer.step()
        return loss

    return loops.setup(step, 0.1, torch.optim.SGD)


@pytest.mark.parametrize("step", [loops.right, loops.clipped(1.0), loops.clipped(0.1)])
def test_usual_clipping_is_clean(step: loops.Step) -> None:
    """Clipping at usual norms keeps most of the gradient."""
    report = nbdebug.diagnose(**loops.setup(step), checks=["clipping-too-tight"], progress=False)
    assert report.results[0].status == "clean"
