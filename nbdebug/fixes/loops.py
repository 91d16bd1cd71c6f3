"""Patches of the training step: add the missing calls."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from nbdebug.errors import NotApplicable
from nbdebug.experiments.step_facts import GradientsOfBackward
from nbdebug.fixes import patch
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch

__all__: list[str] = []


@patch()
def clear_gradients(sandbox: Sandbox) -> None:
    """Call zero_grad before each call of the user's step."""
    step = _own_step(sandbox)

    def cleared(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
        optimizer.zero_grad()
        return step(model, batch, loss_fn, optimizer)

    sandbox.train_step = cleared


@patch()
def switch_to_training(sandbox: Sandbox) -> None:
    """Switch the model to training mode before each call of the user's step, and keep it there."""
    step = _own_step(sandbox)

    def trained(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
        model.train()
        with _mode_held(model):
            return step(model, batch, loss_fn, optimizer)

    sandbox.train_step = trained


@patch()
def unclipped_gradients(sandbox: Sandbox) -> None:
    """Take each optimizer step with the gradients as the backward pass left them, whatever the step does to them."""
    _own_step(sandbox)
    left = GradientsOfBackward(sandbox)

    def restore(optimizer: Any, args: Any, kwargs: Any) -> None:
        for parameter, gradient in left.changed():
            parameter.grad.copy_(gradient)

    sandbox.optimizer.register_step_pre_hook(restore)


class _mode_held:
    """Disable `eval()` and `train(False)` on the model inside the block."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def __enter__(self) -> None:
        self.model.__dict__["train"] = lambda mode=True: self.model

    def __exit__(self, *_: object) -> None:
        del self.model.__dict__["train"]


@patch()
def plain_loop(sandbox: Sandbox, *, clip: float | None = None) -> None:
    """Replace the step with the standard order: zero_grad, forward, backward, optional clipping, step."""

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = sandbox.run(Batch(batch, sandbox.setup.reading_of(batch)).to(sandbox.device)).loss
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        return loss.detach()

    sandbox.train_step = step


def _own_step(sandbox: Sandbox) -> Any:
    if sandbox.train_step is None:
        raise NotApplicable("no train_step was passed, so there is no loop to change")
    return sandbox.train_step
