"""What a tap may be given, and the words for what it may not."""

from __future__ import annotations

import difflib
from typing import Any, Literal

from torch import nn

from nbdebug.errors import BadInput

__all__ = ["Of", "checked_tap", "predicate", "whole_number"]

KINDS = ("input", "output", "gradient")
USUAL = {"every": 1, "keep": 1, "history": 10_000, "times": 1}
Of = Literal["input", "output", "gradient"]


def checked_tap(model: Any, *, of: str, pick: Any, **counts: Any) -> None:
    """Refuse what cannot be tapped, before anything is hung on the model."""
    if not isinstance(model, nn.Module):
        raise BadInput(
            f"it is a {type(model).__name__}",
            where="tap: model",
            expected="a torch.nn.Module",
            do='write nbdebug.tap(model, "encoder.3")',
        )
    if of not in KINDS:
        raise BadInput(
            f"of={of!r}",
            where="tap",
            expected="'input', 'output' or 'gradient'",
            do=_nearest(of),
        )
    predicate("tap: pick", pick, optional=True, expected="a function that returns one tensor", do="lambda out: out[0]")
    for name, count in counts.items():
        whole_number("tap", name, count, least=0 if name == "keep" else 1)


def whole_number(where: str, name: str, count: Any, *, least: int = 1) -> None:
    """Refuse a count that counts nothing."""
    if not isinstance(count, int) or isinstance(count, bool) or count < least:
        raise BadInput(
            f"{name}={count!r}",
            where=where,
            expected=f"an integer >= {least}",
            do=f"write {name}={USUAL[name]}",
        )


def _nearest(of: Any) -> str:
    near = difflib.get_close_matches(str(of), KINDS, n=1, cutoff=0.4)
    return f"write of={near[0]!r}" if near else "create one tap for each; they are independent"


def predicate(
    where: str,
    function: Any,
    *,
    optional: bool = False,
    expected: str = "a function of the value",
    do: str = "lambda value: value.abs().max() > 10",
) -> None:
    """Refuse a condition that cannot be called."""
    if not callable(function) and not (optional and function is None):
        raise BadInput(
            f"a {type(function).__name__} cannot be called",
            where=where,
            expected=expected,
            do=f"write for example {do}",
        )
