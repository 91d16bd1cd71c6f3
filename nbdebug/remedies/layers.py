"""Patches of single layers and operations inside a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from nbdebug.errors import NotApplicable
from nbdebug.remedies import patch
from nbdebug.remedies.calls import Call, Change, rewrite_calls, rewrite_loss_calls
from nbdebug.remedies.places import module_at
from nbdebug.remedies.weights import reinitialise
from nbdebug.twin import Twin

__all__: list[str] = []

DROPOUTS = {"dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"}
DRAWS = {"rand", "rand_like", "randn", "randn_like", "normal", "uniform", "bernoulli"}


@patch()
def leaky_activations(twin: Twin, *, slope: float = 0.01) -> None:
    """Replace every ReLU with a leaky ReLU."""

    def change(call: Call) -> Any:
        if call.name != "relu" or not isinstance(call.subject, torch.Tensor):
            return call.go_on()
        return torch.where(call.subject > 0, call.subject, slope * call.subject)

    rewrite_calls(twin, lambda: change)


@patch()
def relu_activations(twin: Twin) -> None:
    """Replace every saturating activation with ReLU, and re-initialize the weights for it."""
    reinitialise(twin, gain="relu")

    def change(call: Call) -> Any:
        return call.subject.clamp_min(0) if call.name in ("tanh", "sigmoid") else call.go_on()

    rewrite_calls(twin, lambda: change)


@patch()
def limit_dropout(twin: Twin, *, share: float = 0.3) -> None:
    """Limit every dropout probability to this value."""

    def change(call: Call) -> Any:
        dropped = call.option("p", 1) if call.name in DROPOUTS else None
        return call.with_option("p", 1, share) if dropped is not None and dropped > share else call.go_on()

    rewrite_calls(twin, lambda: change)


@patch("check")
def no_chance_in_eval(twin: Twin) -> None:
    """Disable dropout and noise in eval mode."""

    def make_change() -> Change:
        return _without_randomness if not twin.model.training else lambda call: call.go_on()

    rewrite_calls(twin, make_change)


def _without_randomness(call: Call) -> Any:
    if call.name in DROPOUTS:
        return call.subject
    if call.name in ("randn", "randn_like", "normal"):
        return torch.zeros_like(call.go_on())
    return call.go_on()


@patch("check")
def activation_between(twin: Twin, *, layers: Sequence[str]) -> None:
    """Add a ReLU after each of these layers."""
    for path in layers:
        module_at(twin, path).register_forward_hook(lambda module, args, output: output.relu())


@patch("check")
def norm_momentum(twin: Twin, *, momentum: float = 0.1) -> None:
    """Set the momentum of BatchNorm."""
    norms = [m for m in twin.model.modules() if isinstance(m, nn.modules.batchnorm._NormBase)]
    if not norms:
        raise NotApplicable("the model has no PyTorch BatchNorm layer")
    for norm in norms:
        norm.momentum = momentum


@patch()
def group_norm(twin: Twin) -> None:
    """Replace every BatchNorm with GroupNorm."""
    done = 0
    for parent in list(twin.model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.modules.batchnorm._BatchNorm):
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
def samples_first(twin: Twin) -> None:
    """Set `batch_first=True` on recurrent and attention layers."""
    time_first: list[Any] = [m for m in twin.model.modules() if getattr(m, "batch_first", True) is False]
    if not time_first:
        raise NotApplicable("the model has no PyTorch layer with batch_first=False")
    for module in time_first:
        module.batch_first = True


@patch()
def guard_operation(twin: Twin, *, operation: str, least: float = 1e-8) -> None:
    """Clamp the argument of a logarithm, a square root or a division away from zero."""

    def change(call: Call) -> Any:
        if call.name != operation or not isinstance(call.subject, torch.Tensor):
            return call.go_on()
        if operation in ("div", "true_divide", "truediv"):
            return call.go_on(call.subject, call.args[1] + least)
        return call.go_on(call.subject.clamp_min(least), *call.args[1:])

    rewrite_calls(twin, lambda: change)
    rewrite_loss_calls(twin, lambda: change)


@patch()
def uncorrected_spread(twin: Twin) -> None:
    """Compute every standard deviation and variance with correction=0."""

    def change(call: Call) -> Any:
        return (
            call.go_on(correction=0) if call.name in ("std", "var") and "unbiased" not in call.kwargs else call.go_on()
        )

    rewrite_calls(twin, lambda: change)


@patch("answers")
def softmax_dimension(twin: Twin, *, wrong: int, right: int) -> None:
    """Apply every softmax over the wrong dimension over the right one instead."""

    def change(call: Call) -> Any:
        dim = call.option("dim", 1) if call.name in ("softmax", "log_softmax") else None
        if not isinstance(dim, int) or not isinstance(call.subject, torch.Tensor):
            return call.go_on()
        return call.with_option("dim", 1, right) if dim % call.subject.dim() == wrong else call.go_on()

    rewrite_calls(twin, lambda: change)
    rewrite_loss_calls(twin, lambda: change)
