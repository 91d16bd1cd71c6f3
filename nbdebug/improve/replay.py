"""One pass through a model in eval mode and double precision, with every leaf's input, output and gradient kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.loss import main_output
from nbdebug.setup.nested import first_tensor
from nbdebug.setup.user_code import user_code

__all__ = ["Call", "Replay", "replayed"]


@dataclass(frozen=True)
class Call:
    """One call of a module that has no modules in it."""

    path: str
    module: nn.Module
    inputs: torch.Tensor | None
    output: torch.Tensor | None


@dataclass
class Replay:
    """What one pass gave."""

    calls: list[Call] = field(default_factory=list)
    output: torch.Tensor | None = None
    gradients: dict[str, torch.Tensor | None] = field(default_factory=dict)


def replayed(sandbox: Sandbox, batch: Batch) -> Replay:
    """Run the copy forward and, where the output allows it, backward."""
    sandbox.model.double().eval()
    double = batch.map_inputs(lambda _, t: t.double() if t.is_floating_point() else t)
    double = double.map_targets(lambda _, t: t.double() if t.is_floating_point() else t)
    replay = Replay()
    leaves = [(path, module) for path, module in sandbox.model.named_modules() if not list(module.children())]
    handles = [module.register_forward_hook(_recorder(path, replay)) for path, module in leaves]
    try:
        output = sandbox.forward(double)
    finally:
        for handle in handles:
            handle.remove()
    replay.output = _kept(main_output(output))
    _go_back(sandbox, output, double)
    replay.gradients = {name: _kept(parameter.grad) for name, parameter in sandbox.model.named_parameters()}
    return replay


def _go_back(sandbox: Sandbox, output: Any, batch: Batch) -> None:
    """Take the gradients of the loss, or of the outputs' mean square where there is no loss to be had."""
    sandbox.model.zero_grad()
    with user_code(passing=()) as tried:
        loss: torch.Tensor | None = sandbox.loss_of(output, batch)
    if tried.failure:  # a reference may come without its loss
        predicted = main_output(output)
        loss = predicted.square().mean() if isinstance(predicted, torch.Tensor) else None
    if isinstance(loss, torch.Tensor) and loss.requires_grad and loss.numel() == 1:
        loss.backward()


def _recorder(path: str, replay: Replay) -> Callable[..., None]:
    def record(module: nn.Module, args: Any, output: Any) -> None:
        replay.calls.append(Call(path, module, _kept(first_tensor(args)), _kept(first_tensor(output))))

    return record


def _kept(value: Any) -> torch.Tensor | None:
    return value.detach().clone() if isinstance(value, torch.Tensor) else None
