"""What would fit: try small changes of what a layer or a loss was given, and say which of them run."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from nbdebug.setup.user_code import user_code

__all__ = ["Suggestion", "labels_met", "layer_fits", "loss_fits"]


@dataclass(frozen=True)
class Suggestion:
    """What would make a failing call run: in words, and as code where it can be written down as such."""

    says: str
    code: str = ""

    @classmethod
    def of_code(cls, code: str) -> Suggestion:
        """Return a suggestion that needs no other words than its code."""
        return cls(code, code)


Change = Callable[[torch.Tensor], torch.Tensor]

# What people write to fix a shape or a type, in the order in which they should be offered.
_INPUT_CHANGES: tuple[tuple[str, Change], ...] = (
    ("x.float()", lambda x: x.float()),
    ("x.double()", lambda x: x.double()),
    ("x.half()", lambda x: x.half()),
    ("x.long()", lambda x: x.long()),
    ("x.flatten(1)", lambda x: x.flatten(1)),
    ("x.unsqueeze(1)", lambda x: x.unsqueeze(1)),
    ("x.movedim(-1, 1)", lambda x: x.movedim(-1, 1)),
    ("x.transpose(1, 2)", lambda x: x.transpose(1, 2)),
    ("x.squeeze(1)", lambda x: x.squeeze(1)),
    ("x.unsqueeze(-1)", lambda x: x.unsqueeze(-1)),
)
_SAME: Change = lambda x: x  # noqa: E731
_LOSS_CHANGES: tuple[tuple[str, Change, Change], ...] = (
    ("loss_fn(output, target.long())", _SAME, lambda t: t.long()),
    ("loss_fn(output, target.float())", _SAME, lambda t: t.float()),
    ("loss_fn(output, target - 1)", _SAME, lambda t: t - 1),
    ("loss_fn(output, target.squeeze(1))", _SAME, lambda t: t.squeeze(1)),
    ("loss_fn(output, target.squeeze(1).long())", _SAME, lambda t: t.squeeze(1).long()),
    ("loss_fn(output, target.unsqueeze(1))", _SAME, lambda t: t.unsqueeze(1)),
    ("loss_fn(output, target.unsqueeze(1).float())", _SAME, lambda t: t.unsqueeze(1).float()),
    ("loss_fn(output.squeeze(1), target)", lambda o: o.squeeze(1), _SAME),
    ("loss_fn(output.squeeze(1), target.float())", lambda o: o.squeeze(1), lambda t: t.float()),
    ("loss_fn(output.transpose(1, 2), target)", lambda o: o.transpose(1, 2), _SAME),
    ("loss_fn(output.movedim(-1, 1), target)", lambda o: o.movedim(-1, 1), _SAME),
    ("loss_fn(output.flatten(0, 1), target.flatten())", lambda o: o.flatten(0, 1), lambda t: t.flatten()),
    ("loss_fn(output, target.argmax(1))", _SAME, lambda t: t.argmax(1)),
)

# layer -> the attribute that says what it accepts, the dimension that it counts, and the argument's name
_SIZES = {
    "Linear": ("in_features", -1),
    "LSTM": ("input_size", -1),
    "GRU": ("input_size", -1),
    "RNN": ("input_size", -1),
    "Conv": ("in_channels", 1),
    "BatchNorm": ("num_features", 1),
    "InstanceNorm": ("num_features", 1),
}


def layer_fits(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], error: str, *, try_them: bool = True
) -> Iterator[Suggestion]:
    """Say what would make this call run: another size of the layer, or another form of its first tensor.

    Forms are tried by calling the module, sizes only by looking at it.
    """
    x = next((a for a in args if isinstance(a, torch.Tensor)), None)
    if x is None:
        return
    position = next(i for i, a in enumerate(args) if a is x)
    for code, change in _INPUT_CHANGES if try_them else ():
        if _runs(lambda change=change: module(*args[:position], change(x), *args[position + 1 :], **kwargs)):  # type: ignore[misc]
            yield Suggestion.of_code(code)
            break
    yield from _sizes(module, x, error)


def loss_fits(loss: Callable[..., Any], output: Any, target: Any) -> Iterator[Suggestion]:
    """Say which change of output or target would make the loss run without broadcasting."""
    if isinstance(output, (tuple, list)) and output and _runs(lambda: loss(output[0], target)):
        yield Suggestion.of_code("loss_fn(output[0], target)")
        return
    if not isinstance(output, torch.Tensor) or not isinstance(target, torch.Tensor):
        return
    for code, of_output, of_target in _LOSS_CHANGES:
        if _runs(lambda o=of_output, t=of_target: loss(o(output.detach()), t(target))):  # type: ignore[misc]
            yield Suggestion.of_code(code)
            return


def labels_met(output: Any, target: Any) -> str:
    """Say from where to where labels go, beside the outputs that they should point into."""
    if not isinstance(output, torch.Tensor) or not isinstance(target, torch.Tensor):
        return ""
    if target.is_floating_point() or not target.numel() or not output.dim() or not target.dim():
        return ""
    low, high = int(target.min()), int(target.max())
    return f"the labels range from {low} to {high}, and the outputs have shape {tuple(output.shape)}"


def _sizes(module: nn.Module, x: torch.Tensor, error: str) -> Iterator[Suggestion]:
    name = type(module).__name__
    if name.startswith("Embedding") and not x.is_floating_point() and x.numel():
        low, high = int(x.min()), int(x.max())
        rows = getattr(module, "num_embeddings", high + 1)
        if low < 0:
            yield Suggestion(f"non-negative ids (the smallest is {low})")
        elif high >= rows:
            yield Suggestion(f"num_embeddings={high + 1} or more (it is {rows}, and the largest index is {high})")
        return
    for prefix, (attribute, dim) in _SIZES.items():
        wanted = getattr(module, attribute, None)
        if prefix in name and isinstance(wanted, int) and x.dim() >= 2 and x.shape[dim] != wanted:
            if "dtype" not in error.lower():
                yield Suggestion(f"{attribute}={x.shape[dim]} (it is {wanted})")
            return
    invalid = re.search(r"shape '\[(.*?)\]' is invalid for input of size (\d+)", error)
    if invalid and x.dim() and x.shape[0] and int(invalid[2]) % x.shape[0] == 0:
        each = int(invalid[2]) // x.shape[0]
        yield Suggestion(f"{each} values per sample (the code expects shape [{invalid[1]}])")


def _runs(call: Callable[[], Any]) -> bool:
    """Whether this runs, gives finite numbers, and needs no broadcasting that torch would warn about."""
    with user_code() as tried, torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        value = call()
    if tried.failure:
        return False
    return not isinstance(value, torch.Tensor) or bool(torch.isfinite(value).all()) or value.numel() > 1
