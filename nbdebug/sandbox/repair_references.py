"""What deepcopy leaves out or leaves pointing at the original, put right on the copy."""

from __future__ import annotations

import copy
import types
from collections import OrderedDict
from typing import Any

import torch
from torch import nn

from nbdebug.core import torch_compat
from nbdebug.setup.rebinding import Rebinder
from nbdebug.setup.several import SeveralOptimizers
from nbdebug.setup.user_code import is_users_class

__all__ = ["complete_optimizer", "cut_loose", "say_hooks", "uncompile"]


def cut_loose(model: nn.Module, sandbox: nn.Module, rebinder: Rebinder, *others: Any) -> None:
    """Make everything in the copy that would reach a live object reach its copy: closures, hooks, weak references.

    deepcopy takes functions and weak references as they are, so `self.act = lambda x: self.scale * x` in a copied
    module would still read the user's own scale. `others` are copies that were made with the model.
    """
    rebinder.repoint(*sandbox.modules(), *others)
    for module in sandbox.modules():
        if isinstance(module, torch.jit.ScriptModule):
            continue
        for name, method in rebinder.overrides(type(module)).items():
            module.__dict__.setdefault(name, types.MethodType(method, module))
        _own_class_state(module)
    memo = rebinder.memo
    for parameter in model.parameters():
        if id(parameter) in memo:
            _copy_tensor_hooks(parameter, memo[id(parameter)], rebinder)


def _own_class_state(module: nn.Module) -> None:
    """Return the copy its own of each list, dict or set that the user's class keeps for all."""
    for kind in type(module).__mro__:
        if not is_users_class(kind):
            continue
        for name, value in vars(kind).items():
            if isinstance(value, (list, dict, set)) and not name.startswith("__") and name not in vars(module):
                module.__dict__[name] = copy.copy(value)


def _copy_tensor_hooks(live: torch.Tensor, sandbox: Any, rebinder: Rebinder) -> None:
    """Hang the gradient hooks of a parameter on its copy, because a mask or a clip there is part of the model."""
    for hook in (torch_compat.gradient_hooks(live) or {}).values():
        sandbox.register_hook(rebinder.rebound(hook)[0])
    for hook in (torch_compat.accumulation_hooks(live) or {}).values():
        sandbox.register_post_accumulate_grad_hook(rebinder.rebound(hook)[0])


def complete_optimizer(live: Any, sandbox: Any, rebinder: Rebinder) -> None:
    """Return the copy of an optimizer the attributes that its pickling leaves out, such as the parameters of LBFGS."""
    if isinstance(live, SeveralOptimizers) and isinstance(sandbox, SeveralOptimizers):
        for place, part in live.parts.items():
            complete_optimizer(part, sandbox.parts[place], rebinder)
    if not isinstance(live, torch.optim.Optimizer) or sandbox is None:
        return
    for name, value in vars(live).items():
        if name in torch_compat.OPTIMIZER_HOOKS:
            hooks = OrderedDict((key, rebinder.rebound(hook)[0]) for key, hook in value.items())
            setattr(sandbox, name, hooks)
        elif name == "step":
            torch_compat.count_steps(sandbox)
        elif name not in vars(sandbox):
            setattr(sandbox, name, copy.deepcopy(value, rebinder.memo))


def uncompile(sandbox: nn.Module) -> None:
    """Put the plain module in the place of each compiled one, because hooks do not fire in compiled code."""
    for module in list(sandbox.modules()):
        children = torch_compat.own_modules(module)
        for name, child in children.items():
            plain = torch_compat.inside_compiled(child)
            if isinstance(plain, nn.Module):
                children[name] = plain


def say_hooks(model: nn.Module, notes: list[str]) -> None:
    """Say that the user's own hooks run on the copy."""
    hooked = [
        path or "model"
        for path, m in model.named_modules()
        if torch_compat.forward_hooks(m) or torch_compat.forward_pre_hooks(m)
    ]
    if hooked:
        notes.append(f"Your model has custom hooks ({', '.join(hooked[:3])}); they run on the copy as well.")
