"""What a recorded run may change of the copy, and how each of it is restored."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from nbdebug.experiments.kept_state import KeptState
from nbdebug.sandbox import Sandbox
from nbdebug.sandbox.guard import Guard
from nbdebug.setup.object_graph import parts_in
from nbdebug.setup.several import SeveralOptimizers
from nbdebug.setup.user_code import globals_used, is_users_function

__all__ = ["optimizers_of", "restore_copy"]

_FOLLOWED = (FunctionType, nn.Module, torch.optim.Optimizer)  # of all the globals that a function names


def restore_copy(guard: Guard, sandbox: Sandbox, step: bool) -> None:
    """Write down how to restore the copy: gradients, buffers, attributes, modes, and after a step the weights.

    That includes other models that the program reaches, such as a teacher that a step averages or a second network.
    """
    modules = _modules_of(sandbox)
    for module in modules:
        guard.on_close(KeptState(module).restore)
        guard.on_close(_restores_modes(module))
    held = [p for optimizer in optimizers_of(sandbox) for group in optimizer.param_groups for p in group["params"]]
    parameters = _each_once([p for module in modules for p in module.parameters()] + held)
    kept = [*(b for module in modules for b in module.buffers()), *(parameters if step else [])]
    guard.on_close(_restores_values([t for t in kept if not is_lazy(t)]))
    guard.on_close(_restores_gradients(parameters))
    for parameter in parameters:
        parameter.grad = None
    if step:
        for optimizer in optimizers_of(sandbox):
            guard.on_close(_restores_groups(optimizer))
        if sandbox.scheduler is not None:
            guard.on_close(_restores_attributes(sandbox.scheduler))


def optimizers_of(sandbox: Sandbox) -> list[Any]:
    """Return the optimizers that the program reaches, those inside of wrappers too."""
    found, inner = [], sandbox.optimizer
    while inner is not None:
        found += [inner, *inner.parts.values()] if isinstance(inner, SeveralOptimizers) else [inner]
        inner = vars(inner).get("optimizer")
    parts = _reached(sandbox.train_step, sandbox.scheduler) if sandbox.train_step is not None else []
    return _each_once([*found, *(part for part in parts if isinstance(part, torch.optim.Optimizer))])


def _modules_of(sandbox: Sandbox) -> list[nn.Module]:
    """Return the model and the modules that the program reaches beside it, without those that are parts of others."""
    reached = _reached(sandbox.loss_fn, sandbox.compute_loss, sandbox.train_step)
    found = _each_once([sandbox.model, *(part for part in reached if isinstance(part, nn.Module))])
    inside = {id(part) for module in found for part in module.modules() if part is not module}
    return [module for module in found if id(module) not in inside]


def _reached(*roots: Any) -> list[Any]:
    """List what functions and objects hold, and the globals that the user's functions name."""
    found: list[Any] = []
    queue, seen = [root for root in roots if root is not None], set[int]()
    while queue:
        for part in parts_in(queue.pop()):
            found.append(part)
            if isinstance(part, FunctionType) and id(part) not in seen and is_users_function(part):
                seen.add(id(part))
                space = part.__globals__
                named = [space[name] for name in globals_used(part.__code__) if name in space]
                queue += [
                    value for value in named if isinstance(value, (FunctionType, nn.Module, torch.optim.Optimizer))
                ]
    return found


def _each_once(parts: Iterable[Any]) -> list[Any]:
    return list({id(part): part for part in parts}.values())


def _restores_values(tensors: list[torch.Tensor]) -> Callable[[], None]:
    before = [t.detach().clone() for t in tensors]

    def undo() -> None:
        with torch.no_grad():
            for tensor, value in zip(tensors, before, strict=True):
                if tensor.shape == value.shape and not torch.equal(tensor, value):
                    tensor.data.copy_(value)

    return undo


def _restores_gradients(parameters: list[nn.Parameter]) -> Callable[[], None]:
    before = [(p, p.grad) for p in parameters]

    def undo() -> None:
        for parameter, gradient in before:
            parameter.grad = gradient

    return undo


def _restores_modes(module: nn.Module) -> Callable[[], None]:
    before = [(part, part.training) for part in module.modules()]

    def undo() -> None:
        for part, training in before:
            if part.training != training:
                part.training = training

    return undo


def _restores_groups(optimizer: Any) -> Callable[[], None]:
    groups = list(getattr(optimizer, "param_groups", None) or [])
    before = [dict(group) for group in groups]

    def undo() -> None:
        for group, values in zip(groups, before, strict=True):
            group.update(values)

    return undo


def _restores_attributes(scheduler: Any) -> Callable[[], None]:
    before = dict(vars(scheduler))
    return lambda: vars(scheduler).update(before)
