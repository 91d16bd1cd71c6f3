"""What may be expected of a value, and the errors for what makes no sense."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from nbdebug.errors import BadInput

__all__ = ["WORDS", "checked_bounds", "checked_direction", "checked_dtype", "checked_shape", "checked_words"]

WORDS = ("finite", "positive", "low", "high", "shape", "dtype", "monotone", "holds")
_MEANT = {"max": "high", "maximum": "high", "upper": "high", "min": "low", "minimum": "low", "lower": "low"}


def checked_words(unknown: Mapping[str, Any], **switches: Any) -> None:
    """Refuse names that nothing is known about, and switches that are neither on nor off."""
    for name in unknown:
        near = difflib.get_close_matches(name, WORDS, n=1)
        meant = _MEANT.get(name) or (near[0] if near else "")
        raise BadInput(
            f"there is no {name}",
            where="tap.expect",
            expected=f"one or more of {', '.join(WORDS)}",
            do=f"perhaps you meant {meant}" if meant else "write a custom condition: holds=lambda value: …",
        )
    for name, switch in switches.items():
        if not isinstance(switch, bool):
            raise BadInput(f"{name}={switch!r}", where="tap.expect", expected="True or False", do=f"write {name}=True")


def checked_bounds(low: Any, high: Any) -> tuple[Any, Any]:
    """Return the bounds as numbers of Python, whole ones as such."""
    low, high = _number("low", low), _number("high", high)
    if low is not None and high is not None and low > high:
        raise BadInput(
            f"low={low} is above high={high}",
            where="tap.expect",
            expected="bounds with low <= high",
            do=f"write low={high}, high={low}",
        )
    return low, high


def _number(name: str, bound: Any) -> float | None:
    if isinstance(bound, torch.Tensor) and bound.numel() == 1 and not bound.is_complex():
        bound = bound.item()
    if bound is None:
        return None
    if not isinstance(bound, numbers.Real) or isinstance(bound, bool) or math.isnan(bound):
        raise BadInput(
            f"{name}={bound!r}",
            where="tap.expect",
            expected="a number",
            do=f"write for example {name}=0, or omit it",
        )
    return int(bound) if isinstance(bound, numbers.Integral) else float(bound)


def checked_shape(sizes: Any) -> Sequence[Any]:
    """Return a shape that can be compared."""
    is_list = isinstance(sizes, Sequence) and not isinstance(sizes, str)
    known = is_list and all(
        s is None or s is ... or isinstance(s, str) or (isinstance(s, int) and not isinstance(s, bool) and s >= 0)
        for s in sizes
    )
    if not known or sum(s is ... for s in sizes) > 1:
        raise BadInput(
            f"{sizes!r} is not a shape",
            where="tap.expect",
            expected="ints, names for sizes, None for any size, and one ... for any number of dimensions",
            do='write for example shape=("B", "T", 256) or shape=(..., 256)',
        )
    return tuple(sizes)


def checked_dtype(dtype: Any) -> torch.dtype:
    """Return the type that is meant by itself or by its name."""
    meant = getattr(torch, dtype.removeprefix("torch."), None) if isinstance(dtype, str) else dtype
    if not isinstance(meant, torch.dtype):
        known = [name for name in dir(torch) if isinstance(getattr(torch, name), torch.dtype)]
        near = difflib.get_close_matches(str(dtype), known, n=1)
        raise BadInput(
            f"dtype={dtype!r}",
            where="tap.expect",
            expected="a torch.dtype or its name",
            do=f"write dtype={near[0] if near else 'float32'!r}",
        )
    return meant


def checked_direction(direction: Any) -> str:
    """Return one of the two directions."""
    if direction not in ("rising", "falling"):
        raise BadInput(
            f"monotone={direction!r}",
            where="tap.expect",
            expected="'rising' or 'falling', along the last dimension",
            do="write monotone='rising' for values that never decrease",
        )
    return str(direction)
