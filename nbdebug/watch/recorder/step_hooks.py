"""Hooks around the steps of optimizers and on arriving gradients: what recorder and probes observe a training by."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

__all__ = ["hook_gradient", "hook_outer_steps", "hook_steps", "is_inner_step"]

# What torch wraps around the `step` of every class of optimizers, with the hooks.
_WRAPPER = torch.optim.Optimizer.profile_hook_step(lambda: None).__code__


def is_inner_step(optimizer: torch.optim.Optimizer) -> bool:
    """Say, in a hook of a step, whether it is one that the optimizer's own step has called, as ``super().step()``."""
    frame: FrameType | None = sys._getframe(1)
    steps = 0
    while frame is not None and steps < 2:
        steps += frame.f_code is _WRAPPER and frame.f_locals.get("self") is optimizer
        frame = frame.f_back
    return steps == 2


def hook_steps(
    before: Callable[..., Any], after: Callable[..., Any], optimizers: Iterable[Any] | None = None
) -> list[Any]:
    """Call these around every step of these optimizers, or, for None, of any; return the handles."""
    if optimizers is None:
        return [register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)]
    registers = [(one.register_step_pre_hook, one.register_step_post_hook) for one in optimizers]
    return [handle for pre, post in registers for handle in (pre(before), post(after))]


def hook_outer_steps(
    before: Callable[[Any], None], after: Callable[[Any], None], optimizers: Iterable[Any] | None = None
) -> list[Any]:
    """Call these with the optimizer around its steps, once for a step that makes another inside of it.

    Where the steps of any optimizer are followed, those of other threads are left out.
    """
    thread = threading.get_ident()

    def is_own(optimizer: Any) -> bool:
        return (optimizers is not None or threading.get_ident() == thread) and not is_inner_step(optimizer)

    def at_begin(optimizer: Any, args: Any, kwargs: Any) -> None:
        if is_own(optimizer):
            before(optimizer)

    def at_end(optimizer: Any, args: Any, kwargs: Any) -> None:
        if is_own(optimizer):
            after(optimizer)

    return hook_steps(at_begin, at_end, optimizers)


def hook_gradient(parameter: torch.Tensor, arrives: Callable[[], Any], accumulated: Callable[[], Any]) -> list[Any]:
    """Call these before a gradient is added to `.grad` of a parameter and after it; return the handles."""
    if not (parameter.is_floating_point() or parameter.is_complex()):
        return []

    def at_arrival(gradient: torch.Tensor) -> None:
        arrives()

    def at_end(_: torch.Tensor) -> None:
        accumulated()

    requires_grad = parameter.requires_grad
    parameter.requires_grad_(True)  # hooks can be registered on such only
    handles = [parameter.register_hook(at_arrival), parameter.register_post_accumulate_grad_hook(at_end)]
    parameter.requires_grad_(requires_grad)
    return handles
