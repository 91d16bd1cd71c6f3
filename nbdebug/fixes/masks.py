"""Patches of what attention and convolutions may see: padding masks, causal masks, padding on the left."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from nbdebug.errors import NotApplicable
from nbdebug.fixes import patch
from nbdebug.fixes.calls import Call, rewrite_calls
from nbdebug.sandbox import Sandbox

__all__: list[str] = []

PADDING = "key_padding_mask"


@patch("check")
def invert_mask(sandbox: Sandbox) -> None:
    """Show the keys that padding masks hide, and hide those that they show."""

    def invert(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
        mask = kwargs.get(PADDING)
        return (args, {**kwargs, PADDING: _inverted(mask)}) if mask is not None else None

    def change(call: Call) -> Any:
        mask = call.option("attn_mask", 3) if call.name == "scaled_dot_product_attention" else None
        if not isinstance(mask, torch.Tensor) or mask.dim() < 2 or not (mask == mask[..., :1, :]).all():
            return call.go_on()  # it hides other keys from each query: no padding mask
        return call.with_option("attn_mask", 3, _inverted(mask))

    for module in sandbox.model.modules():
        if isinstance(module, nn.MultiheadAttention):
            module.register_forward_pre_hook(invert, with_kwargs=True)
    rewrite_calls(sandbox, lambda: change)


def _inverted(mask: torch.Tensor) -> torch.Tensor:
    """Return a mask of the opposite meaning; one of numbers is -inf where it hides."""
    if mask.dtype is torch.bool:
        return ~mask
    return torch.zeros_like(mask).masked_fill(mask == 0, -torch.inf)


@patch("clean")
def causal_mask(sandbox: Sandbox) -> None:
    """Hide later positions in every attention of a sequence to itself."""

    def masked(module: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        query, key = (*args, *(kwargs[name] for name in ("query", "key") if name in kwargs))[:2]
        time = -2 if module.batch_first or query.dim() == 2 else 0
        if query.shape[time] != key.shape[time] or len(args) > 5:
            return None
        return args, {**kwargs, "attn_mask": _causal(kwargs.get("attn_mask"), _later(query.shape[time], query))}

    def change(call: Call) -> Any:
        if call.name == "scaled_dot_product_attention" and not call.option("is_causal", 5):
            query, key = call.args[:2] if len(call.args) > 1 else (call.kwargs["query"], call.kwargs["key"])
            if query.shape[-2] == key.shape[-2]:
                seen = ~_later(query.shape[-2], query)
                mask = call.option("attn_mask", 3)
                return call.with_option("attn_mask", 3, _shown(mask, seen))
        if call.name == "softmax" and isinstance(call.setup, torch.Tensor) and _are_scores(call):
            return call.go_on(_causal(call.setup, _later(call.setup.shape[-1], call.setup)), *call.args[1:])
        return call.go_on()

    for module in sandbox.model.modules():
        if isinstance(module, nn.MultiheadAttention):
            module.register_forward_pre_hook(masked, with_kwargs=True)
    rewrite_calls(sandbox, lambda: change)


def _later(length: int, like: torch.Tensor) -> torch.Tensor:
    """Return which keys are later than each query."""
    return torch.ones(length, length, dtype=torch.bool, device=like.device).triu(1)


def _causal(values: torch.Tensor | None, later: torch.Tensor) -> torch.Tensor:
    """Add what is later to a mask that is True or -inf for what is hidden, or to scores."""
    if values is None:
        return later
    return values | later if values.dtype is torch.bool else values.masked_fill(later, -torch.inf)


def _shown(mask: torch.Tensor | None, seen: torch.Tensor) -> torch.Tensor:
    """Take what is later from a mask that is True for what is seen, or -inf for what is hidden."""
    if mask is None:
        return seen
    return mask & seen if mask.dtype is torch.bool else mask.masked_fill(~seen, -torch.inf)


def _are_scores(call: Call) -> bool:
    """Whether a softmax runs over the keys of square scores."""
    shape, dim = call.setup.shape, call.option("dim", 1)
    is_square = len(shape) > 2 and shape[-1] == shape[-2] > 1
    return bool(call.args) and is_square and dim in (-1, len(shape) - 1)


@patch("clean")
def pad_left(sandbox: Sandbox) -> None:
    """Pad every convolution over time on the left only."""
    found = [m for m in sandbox.model.modules() if isinstance(m, nn.Conv1d) and _is_centered(m)]
    if not found:
        raise NotApplicable("no Conv1d pads both sides and keeps the length")
    for module in found:
        width = module.dilation[0] * (module.kernel_size[0] - 1)
        module.padding = (0,)
        module.register_forward_pre_hook(_padding_left(width))


def _is_centered(module: nn.Conv1d) -> bool:
    width, padding = module.dilation[0] * (module.kernel_size[0] - 1), module.padding
    keeps_length = padding == "same" or (not isinstance(padding, str) and 2 * padding[0] == width)
    return width > 0 and keeps_length and module.stride == (1,) and module.padding_mode == "zeros"


def _padding_left(width: int) -> Any:
    def pad(module: nn.Module, args: Any) -> Any:
        return (nn.functional.pad(args[0], (width, 0)), *args[1:])

    return pad
