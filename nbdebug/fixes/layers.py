"""Patches of single layers and operations inside a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from nbdebug.core.torch_compat import BatchNorm, RunningNorm
from nbdebug.errors import NotApplicable
from nbdebug.fixes import patch
from nbdebug.fixes.calls import Call, Change, activation_calls, rewrite_calls, rewrite_loss_calls
from nbdebug.fixes.places import module_at
from nbdebug.fixes.weights import reinitialize
from nbdebug.sandbox import Sandbox

__all__: list[str] = []

SATURATING = ("tanh", "sigmoid")
DROPOUTS = {"dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"}
NORMS = {"norm", "linalg_norm", "vector_norm", "linalg_vector_norm"}
DRAWS = {"rand", "rand_like", "randn", "randn_like", "normal", "uniform", "bernoulli"}


@patch()
def leaky_activations(sandbox: Sandbox, *, slope: float = 0.01) -> None:
    """Replace every ReLU with a leaky ReLU."""

    def change(call: Call) -> Any:
        if call.name != "relu" or not isinstance(call.setup, torch.Tensor):
            return call.go_on()
        return torch.where(call.setup > 0, call.setup, slope * call.setup)

    rewrite_calls(sandbox, lambda: change)


@patch()
def relu_activations(sandbox: Sandbox) -> None:
    """Replace every saturating activation of a hidden layer with ReLU, and re-initialize the weights for it."""
    count, last = activation_calls(sandbox, SATURATING)
    if count == (last is not None):
        raise NotApplicable("no hidden layer calls tanh or sigmoid")
    reinitialize(sandbox, gain="relu")

    def make_change() -> Change:
        calls = 0

        def change(call: Call) -> Any:
            nonlocal calls
            if call.name not in SATURATING:
                return call.go_on()
            calls += 1
            return call.go_on() if calls - 1 == last else call.setup.clamp_min(0)

        return change

    rewrite_calls(sandbox, make_change)


@patch()
def limit_dropout(sandbox: Sandbox, *, share: float = 0.3) -> None:
    """Limit every dropout probability to this value."""

    def change(call: Call) -> Any:
        dropped = call.option("p", 1) if call.name in DROPOUTS else None
        return call.with_option("p", 1, share) if dropped is not None and dropped > share else call.go_on()

    rewrite_calls(sandbox, lambda: change)


@patch("check")
def no_chance_in_eval(sandbox: Sandbox) -> None:
    """Disable dropout and noise in eval mode."""

    def make_change() -> Change:
        return _without_randomness if not sandbox.model.training else lambda call: call.go_on()

    rewrite_calls(sandbox, make_change)


def _without_randomness(call: Call) -> Any:
    if call.name in DROPOUTS:
        return call.setup
    if call.name in ("randn", "randn_like", "normal"):
        return torch.zeros_like(call.go_on())
    return call.go_on()


@patch("check")
def activation_between(sandbox: Sandbox, *, layers: Sequence[str]) -> None:
    """Add a ReLU after each of these layers."""
    for path in layers:
        module_at(sandbox, path).register_forward_hook(lambda module, args, output: output.relu())


@patch("check")
def norm_momentum(sandbox: Sandbox, *, momentum: float = 0.1) -> None:
    """Set the momentum of BatchNorm."""
    norms = [m for m in sandbox.model.modules() if isinstance(m, RunningNorm)]
    if not norms:
        raise NotApplicable("the model has no PyTorch BatchNorm layer")
    for norm in norms:
        norm.momentum = momentum


@patch()
def group_norm(sandbox: Sandbox) -> None:
    """Replace every BatchNorm with GroupNorm."""
    done = 0
    for parent in list(sandbox.model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, BatchNorm):
                setattr(parent, name, _as_group_norm(child))
                done += 1
    if not done:
        raise NotApplicable("the model has no PyTorch BatchNorm layer")


def _as_group_norm(norm: Any) -> nn.Module:
    groups = next(g for g in (8, 4, 2, 1) if norm.num_features % g == 0)
    made = nn.GroupNorm(groups, norm.num_features, norm.eps, norm.affine)
    if norm.affine:
        made.weight, made.bias = norm.weight, norm.bias  # the optimizer already holds them
    return made.train(norm.training)


@patch("check")
def samples_first(sandbox: Sandbox) -> None:
    """Set `batch_first=True` on recurrent and attention layers."""
    time_first: list[Any] = [m for m in sandbox.model.modules() if getattr(m, "batch_first", True) is False]
    if not time_first:
        raise NotApplicable("the model has no PyTorch layer with batch_first=False")
    for module in time_first:
        module.batch_first = True


@patch()
def guard_operation(sandbox: Sandbox, *, operation: str, least: float = 1e-8) -> None:
    """Clamp the argument of a logarithm, a square root or a division away from zero."""

    def change(call: Call) -> Any:
        if call.name != operation or not isinstance(call.setup, torch.Tensor):
            return call.go_on()
        if operation in ("div", "true_divide", "truediv"):
            return call.go_on(call.setup, call.args[1] + least)
        return call.go_on(call.setup.clamp_min(least), *call.args[1:])

    rewrite_calls(sandbox, lambda: change)
    rewrite_loss_calls(sandbox, lambda: change)


@patch()
def uncorrected_spread(sandbox: Sandbox) -> None:
    """Compute every standard deviation and variance with correction=0."""

    def change(call: Call) -> Any:
        return (
            call.go_on(correction=0) if call.name in ("std", "var") and "unbiased" not in call.kwargs else call.go_on()
        )

    rewrite_calls(sandbox, lambda: change)


@patch("answers")
def softmax_dimension(sandbox: Sandbox, *, wrong: int, right: int) -> None:
    """Apply every softmax over the wrong dimension over the right one instead."""

    def change(call: Call) -> Any:
        dim = call.option("dim", 1) if call.name in ("softmax", "log_softmax") else None
        if not isinstance(dim, int) or not isinstance(call.setup, torch.Tensor):
            return call.go_on()
        return call.with_option("dim", 1, right) if dim % call.setup.dim() == wrong else call.go_on()

    rewrite_calls(sandbox, lambda: change)
    rewrite_loss_calls(sandbox, lambda: change)


@patch("check")
def normalize_features(sandbox: Sandbox, *, wrong: int) -> None:
    """Normalize over the last dimension whatever is normalized over the wrong one."""

    def change(call: Call) -> Any:
        if call.name in NORMS and call.kwargs.get("keepdim") and isinstance(call.kwargs.get("dim"), int):
            is_wrong = call.kwargs["dim"] % call.setup.dim() == wrong
            return call.go_on(dim=-1) if is_wrong else call.go_on()
        if call.name != "normalize" or not isinstance(call.setup, torch.Tensor):
            return call.go_on()
        dim = call.option("dim", 2)
        is_wrong = (1 if dim is None else dim) % call.setup.dim() == wrong
        return call.with_option("dim", 2, -1) if is_wrong else call.go_on()

    rewrite_calls(sandbox, lambda: change)
    rewrite_loss_calls(sandbox, lambda: change)
