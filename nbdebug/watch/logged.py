"""What may be logged: one number for each name. Everything else is refused with advice that fits it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from nbdebug.errors import BadInput

__all__ = ["number", "unnamed"]

NUMBERS = "biuf"  # kinds of NumPy's types that hold real numbers


def number(name: str, value: Any) -> Any:
    """Return a value as a float, or a tensor with one element as an asynchronous copy."""
    if isinstance(value, torch.Tensor):
        if value.numel() == 1 and not value.is_complex():
            return value.detach().clone()
    elif isinstance(value, (np.ndarray, np.generic)):
        if value.size == 1 and value.dtype.kind in NUMBERS:
            return float(value.item())
    else:
        try:
            return float(value)
        except Exception:  # whatever a class of the user's raises there
            pass
    raise BadInput(
        f"{name} is {_seen(value)}",
        where="live.log",
        expected="one number per name: a float, or a tensor or array with one element",
        do=_advice(name, value),
    )


def unnamed(values: tuple[Any, ...]) -> BadInput:
    """Return the error for values that were handed without a name."""
    has_names = len(values) == 1 and isinstance(values[0], Mapping)
    return BadInput(
        f"{type(values[0]).__name__} was passed without a name",
        where="live.log",
        expected="numbers with names: live.log(loss=0.5)",
        do="live.log(**metrics) for a dict of metrics" if has_names else "live.log(name=value)",
    )


def _seen(value: Any) -> str:
    if isinstance(value, (torch.Tensor, np.ndarray, np.generic)):
        what = "tensor" if isinstance(value, torch.Tensor) else "NumPy array"
        return f"a {what} of shape {tuple(value.shape)} and type {str(value.dtype).removeprefix('torch.')}"
    if isinstance(value, int):
        return "an integer that is too large for a float"
    return "None" if value is None else f"a {type(value).__name__}"


def _advice(name: str, value: Any) -> str:
    own = name if name.isidentifier() else "value"  # how the user's variable may be called

    def call(expression: str) -> str:
        is_plain = name.isidentifier()
        return f"live.log({name}={expression})" if is_plain else f"live.log(**{{{name!r}: {expression}}})"

    if value is None:
        return f"omit {name} if it has no value: if {own} is not None: {call(own)}"
    if isinstance(value, (str, bytes)) or (isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "SUO"):
        return f"log numbers only; where the text is one, {call(f'float({own})')}"
    if isinstance(value, Mapping):
        return f"live.log(**{own}) records each of its numbers under its own name"
    if isinstance(value, (list, tuple, set, frozenset)):
        return f"log a summary, {call(f'sum({own}) / len({own})')}, or each number under its own name"
    if isinstance(value, int):
        return f"log its logarithm, {call(f'math.log10({own})')}"
    if isinstance(value, complex) or _is_complex(value):
        return f"log its magnitude, {call(f'float(abs({own}))')}"
    if hasattr(value, "mean"):
        return f"log a summary of it, for example {call(f'float({own}.mean())')}"
    return f"log its return value, {call(f'{own}()')}" if callable(value) else f"log a number of it, {call('…')}"


def _is_complex(value: Any) -> bool:
    """Whether it is one complex number."""
    if isinstance(value, torch.Tensor):
        return value.is_complex() and value.numel() == 1
    return isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind == "c" and value.size == 1
