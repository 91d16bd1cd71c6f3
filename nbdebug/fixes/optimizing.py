"""Patches of the optimizer: its learning rate, its options, and its parameters."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from nbdebug.errors import NotApplicable
from nbdebug.experiments.reached_parts import reached_parts
from nbdebug.experiments.train_briefly import scale_learning_rate
from nbdebug.fixes import patch
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Setup, unwrap
from nbdebug.setup.several import SeveralOptimizers

__all__ = ["add_to_optimizer", "like"]


@patch()
def multiply_learning_rate(sandbox: Sandbox, *, factor: float) -> None:
    """Multiply the learning rate of every group."""
    scale_learning_rate(sandbox, factor)


@patch()
def raise_zero_rates(sandbox: Sandbox) -> None:
    """Give every group whose learning rate is not above 0 the highest rate of the others."""
    groups = sandbox.optimizer.param_groups
    highest = max(float(group["lr"]) for group in groups)
    idle = [group for group in groups if not float(group["lr"]) > 0]
    if not idle or not highest > 0:
        raise NotApplicable("no group has a rate of 0 beside groups with a higher one")
    for group in idle:
        group["lr"] = torch.full_like(group["lr"], highest) if isinstance(group["lr"], torch.Tensor) else highest


@patch("check")
def average_accumulation(sandbox: Sandbox, *, passes: int) -> None:
    """Divide the accumulated gradients by the number of backward passes before every optimizer step."""

    def average(optimizer: Any, args: Any, kwargs: Any) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad.div_(passes)

    sandbox.optimizer.register_step_pre_hook(average)


@patch("answers")
def textbook_optimizer(sandbox: Sandbox, *, lr: float = 1e-3) -> None:
    """Train everything that requires a gradient with Adam, at a constant learning rate."""
    if isinstance(sandbox.optimizer, SeveralOptimizers):
        raise NotApplicable("the training step uses several optimizers")
    functions = [part for part in (sandbox.loss_fn, sandbox.compute_loss) if isinstance(part, nn.Module)]
    parameters = [p for part in (sandbox.model, *functions) for p in part.parameters() if p.requires_grad]
    if not parameters:
        raise NotApplicable("no parameter requires a gradient")
    sandbox.optimizer, sandbox.scheduler = torch.optim.Adam(parameters, lr=lr), None
    sandbox.owns_optimizer = False


@patch()
def set_optimizer_option(setup: Setup, *, option: str, value: float) -> None:
    """Set one option of every group; `betas[1]` is the second entry of a pair."""
    setup.optimizer = like(setup.optimizer)
    name, _, place = option.partition("[")
    for entry in setup.optimizer.param_groups:
        if name not in entry:
            raise NotApplicable(f"the optimizer has no option called {name}")
        if place:
            parts = list(entry[name])
            parts[int(place.rstrip("]"))] = value
            entry[name] = tuple(parts)
        else:
            entry[name] = value


@patch()
def default_optimizer_options(sandbox: Sandbox) -> None:
    """Give every group the default options of the optimizer's class, but for the learning rate."""
    optimizer = sandbox.optimizer
    usual = {
        name: parameter.default
        for name, parameter in inspect.signature(type(optimizer)).parameters.items()
        if parameter.default is not parameter.empty and name not in ("lr", "params")
    }
    odd = [n for n in usual for group in optimizer.param_groups if n in group and group[n] != usual[n]]
    if not odd:
        raise NotApplicable("the optimizer has its default options already")
    for group in optimizer.param_groups:
        group.update({name: value for name, value in usual.items() if name in group})


@patch()
def train_everything(setup: Setup) -> None:
    """Add every trainable parameter to an optimizer like the user's; leave theirs unchanged."""
    made = setup.optimizer = like(setup.optimizer)
    held = {id(p) for group in made.param_groups for p in group["params"]}
    missing = [p for p in unwrap(setup.model).parameters() if p.requires_grad and id(p) not in held]
    made.param_groups.append({**made.param_groups[0], "params": missing})


def like(optimizer: Any) -> Any:
    """Return an optimizer with its own groups over the same tensors, to be copied with the model; it never steps.

    A wrapper, such as accelerate's, hands its groups on to the optimizer inside, so that one is made anew as well.
    """
    if not isinstance(optimizer, torch.optim.Optimizer) or isinstance(optimizer, torch.optim.LBFGS):
        raise NotApplicable("only a torch.optim.Optimizer with parameter groups can be re-created")
    made = copy.copy(optimizer)
    inner = {name: part for name, part in vars(optimizer).items() if isinstance(part, torch.optim.Optimizer)}
    for name, part in inner.items():
        made.__dict__[name] = like(part)
    if "param_groups" in vars(optimizer):
        made.param_groups = [dict(group) for group in optimizer.param_groups]
    if made.param_groups is optimizer.param_groups:  # found in some other way: it must stay the user's
        raise NotApplicable(f"the parameter groups of {type(optimizer).__name__} cannot be copied")
    return made


@patch()
def unfreeze(sandbox: Sandbox, *, parameters: Sequence[str]) -> None:
    """Set requires_grad on these parameters and add them to the optimizer."""
    chosen = [parameter for name, parameter in sandbox.model.named_parameters() if name in set(parameters)]
    if not chosen:
        raise NotApplicable("the frozen parameters were not found in the copy")
    for parameter in chosen:
        parameter.requires_grad_(True)
    add_to_optimizer(sandbox, chosen)


@patch()
def train_loss(sandbox: Sandbox) -> None:
    """Add the parameters of the loss to the optimizer."""
    if not isinstance(sandbox.loss_fn, nn.Module):
        raise NotApplicable("the loss is not an nn.Module with parameters")
    add_to_optimizer(sandbox, list(sandbox.loss_fn.parameters()))


@patch()
def train_reached(sandbox: Sandbox, *, name: str) -> None:
    """Add what the loss or the training step holds under this name, a network or a tensor, to the optimizer."""
    reached = reached_parts(sandbox)
    if name in reached.networks:
        add_to_optimizer(sandbox, [p for p in reached.networks[name].parameters() if p.requires_grad])
    elif name in reached.tensors:
        add_to_optimizer(sandbox, [reached.tensors[name]])
    else:
        raise NotApplicable(f"{name} was not found in the copy")


@patch("check")
def slow_schedule(sandbox: Sandbox, *, times: int) -> None:
    """Slow the schedule down by this factor."""
    scheduler, calls = sandbox.scheduler, 0
    if scheduler is None:
        raise NotApplicable("no scheduler was passed")
    step = scheduler.step

    def slowly(*args: Any, **kwargs: Any) -> None:
        nonlocal calls
        calls += 1
        if calls % times == 0:
            step(*args, **kwargs)

    scheduler.step = slowly


@patch("check")
def constant_rate(sandbox: Sandbox) -> None:
    """Keep the initial learning rate of every group, whatever the scheduler or the step sets."""
    scheduler, groups = sandbox.scheduler, sandbox.optimizer.param_groups
    train_step: Any = sandbox.train_step
    rates = [float(group.get("initial_lr") or sandbox.optimizer.defaults.get("lr") or 0.0) for group in groups]
    if scheduler is None and train_step is None:
        raise NotApplicable("neither a scheduler nor a train_step was passed")
    if not all(rates):
        raise NotApplicable("the initial learning rate of the optimizer is zero")

    def steady(*_: Any, **__: Any) -> None:
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = torch.full_like(group["lr"], rate) if isinstance(group["lr"], torch.Tensor) else rate

    def steadied(*args: Any) -> Any:
        steady()
        result = train_step(*args)
        steady()
        return result

    if scheduler is not None:
        scheduler.step = steady
    if train_step is not None:
        sandbox.train_step = steadied
    steady()


@patch()
def clip_gradients(sandbox: Sandbox, *, norm: float = 1.0) -> None:
    """Clip the gradient norm before every optimizer step."""
    held = [p for group in sandbox.optimizer.param_groups for p in group["params"]]

    def clip(optimizer: Any, args: Any, kwargs: Any) -> None:
        nn.utils.clip_grad_norm_(held, norm)

    sandbox.optimizer.register_step_pre_hook(clip)


def add_to_optimizer(sandbox: Sandbox, parameters: Sequence[torch.Tensor]) -> None:
    """Add parameters that the optimizer does not hold yet, with the settings of the first group."""
    held = {id(p) for group in sandbox.optimizer.param_groups for p in group["params"]}
    missing = [p for p in parameters if id(p) not in held]
    if not missing:
        return
    if isinstance(sandbox.optimizer, torch.optim.LBFGS):
        raise NotApplicable("LBFGS does not support several parameter groups")
    sandbox.optimizer.add_param_group({"params": missing})
