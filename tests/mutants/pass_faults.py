"""Faults of the pass through the model: numbers, modes, gradients and what it looks at."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.mutants import fault
from tests.mutants.case import ACTIVATIONS, Case, edited


@fault("non-finite-forward")
def log_of_a_negative_number(case: Case) -> tuple[str, ...]:
    """A logarithm of what may be negative."""
    path, layer, received = case.hidden()
    case.require(bool((layer(received.to(layer.weight.dtype)) < 0).any()))
    edited(layer, after=torch.log)
    return (path,)


@fault("non-finite-forward")
def division_by_zero(case: Case) -> tuple[str, ...]:
    """A normalization by a sum that is zero."""
    path, layer, _received = case.hidden()
    edited(layer, after=lambda x: x / (x - x).sum(-1, keepdim=True))
    return (path,)


@fault("non-finite-backward")
def square_root_at_zero(case: Case) -> tuple[str, ...]:
    """A square root of a masked number: finite forward, zero times infinity backward."""
    path, layer, received = case.hidden()
    case.require(bool((layer(received.to(layer.weight.dtype)) < 0).any()))
    edited(layer, after=lambda x: x + torch.sqrt(x * (x > 0)))
    return (path,)


@fault("causal-leak")
def mask_of_the_future_dropped(case: Case) -> tuple[str, ...] | None:
    """Attention that sees the token it must predict."""
    found = [(path, m) for path, m in case.model.named_modules() if isinstance(m, nn.MultiheadAttention)]
    case.require(bool(found) and case.is_classification and case.target.dim() == 2)

    def unmasked(forward: Any, *args: Any, **kwargs: Any) -> Any:
        return forward(*args, **{**kwargs, "attn_mask": None})

    edited(found[0][1], around=unmasked)
    return (found[0][0],)


@fault("causal-leak")
def looks_one_step_ahead(case: Case) -> tuple[str, ...] | None:
    """A shift in the wrong direction."""
    case.require(case.is_classification and case.target.dim() == 2)
    found = [(path, m) for path, m, _ in case.called(nn.Embedding)]
    tokens = next(iter(case.batch.inputs.values()))
    foretold = tokens.shape == case.target.shape and bool((tokens[:, 1:] == case.target[:, :-1]).all())
    case.require(bool(found) and foretold)
    edited(found[0][1], after=lambda x: x + torch.roll(x, -1, 1) if x.dim() == 3 else x)
    return (found[0][0],)


@fault("nondeterministic-eval")
def dropout_that_stays_on(case: Case) -> tuple[str, ...]:
    """Dropout by the function, which does not know about modes."""
    path, layer, _ = case.hidden()
    edited(layer, after=lambda x: nn.functional.dropout(x, 0.3))
    return (path,)


@fault("outputs-identical", "inputs-ignored")
def activations_multiplied_by_zero(case: Case) -> tuple[str, ...]:
    """A factor that is zero."""
    layers = case.weighty()
    case.require(len(layers) >= 2 and type(case.model) is nn.Sequential)
    path, layer, _ = layers[0]
    edited(layer, after=lambda x: 0.0 * x)
    return (path,)


@fault("inputs-ignored")
def second_input_forgotten(case: Case) -> None:
    """One of two inputs is replaced by zeros inside the model."""
    keys = case.input_keys
    case.require(len(keys) >= 2 and len(case.batch.args) >= 2 and "compute_loss" not in case.setup)

    def forget(forward: Any, first: Any, second: Any, *args: Any, **kwargs: Any) -> Any:
        return forward(first, torch.zeros_like(second), *args, **kwargs)

    edited(case.model, around=forget)


@fault("inputs-ignored")
def half_of_the_columns_cut_off(case: Case) -> None:
    """A slice that forgets the second half of the columns."""
    key = case.input_keys[0]
    case.require(case.columns()[key].dim() == 2 and case.columns()[key].shape[1] in (10, 13, 30))
    case.require(len(case.batch.reading.args) == 1)

    def half(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x[:, : x.shape[1] // 2], torch.zeros_like(x[:, x.shape[1] // 2 :])], 1)

    edited(case.model, before=half)


@fault("hardcoded-batch-size", "forward-fails")
def fixed_number_of_samples(case: Case) -> None:
    """A view with the batch size written into it."""
    _path, layer, received = case.hidden()
    size = case.setup["loader"].batch_size if hasattr(case.setup["loader"], "batch_size") else None
    case.require(size is not None and 1 < size == case.batch.size)
    edited(layer, before=lambda x: x.reshape(size, *received.shape[1:]))


@fault("batchnorm-misused", "train-eval-gap")
def statistics_never_updated(case: Case) -> tuple[str, ...]:
    """Batch normalization with a momentum of zero."""
    norms = [(p, m) for p, m in case.model.named_modules() if "BatchNorm" in type(m).__name__ and m.training]
    case.require(bool(norms) and all(bool((m.running_mean == 0).all()) for _, m in norms))
    for _, norm in norms:
        norm.momentum = 0.0
    return tuple(path for path, _ in norms)


class Upside(torch.autograd.Function):
    """A ReLU whose gradient has the wrong sign."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """Return the positive part."""
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        """Get the sign wrong."""
        (x,) = ctx.saved_tensors
        return -gradient * (x > 0)


class OwnRelu(nn.Module):
    """An activation of one's own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply it."""
        return Upside.apply(x)


@fault("custom-backward-wrong")
def gradient_with_the_wrong_sign(case: Case) -> tuple[str, ...]:
    """An autograd function whose backward is wrong."""
    found = case.called(nn.ReLU)
    case.require(bool(found) and len(case.weighty()) >= 2)
    path = found[0][0]
    case.exchange(path, OwnRelu())
    return (path,)


def has_modes(case: Case) -> bool:
    """Whether anything in the model behaves otherwise in training."""
    kinds = (nn.Dropout, nn.BatchNorm1d, nn.BatchNorm2d)
    return any(isinstance(m, kinds) and m.training and getattr(m, "p", 1) > 0 for m in case.model.modules())


@fault("left-in-eval-mode")
def step_in_eval_mode(case: Case) -> None:
    """The step puts the model into eval mode and never back."""
    case.require_plain()
    case.require(has_modes(case) and len(case.batch.args) == 1)

    def train_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        model.eval()
        x, y = batch
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    case.setup["train_step"] = train_step


@fault("vanishing-gradients", "saturated-units", "activations-off-scale", "initialization-off-scale")
def twelve_sigmoids_in_a_row(case: Case) -> None:
    """A deep stack of sigmoids where one layer was."""
    path, layer, received = case.hidden()
    case.require(type(layer) is nn.Linear and received.dim() == 2 and len(case.called(*ACTIVATIONS)) > 0)
    width = layer.in_features
    deep = [part for _ in range(12) for part in (nn.Linear(width, width), nn.Sigmoid())]
    case.exchange(path, nn.Sequential(*deep, layer))
    case.new_optimizer()
