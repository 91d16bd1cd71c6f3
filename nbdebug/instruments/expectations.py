"""What a tapped value is expected to be, and the error that says it is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.errors import BadInput, NbdebugError
from nbdebug.instruments.reading import Reading, first_values, summary

__all__ = ["Expectation", "ExpectationFailed", "Letters", "expectations"]

Size = Any  # a number, a letter, None for any size, or ... for any dimensions
Letters = dict[str, tuple[int, str]]  # a letter of a shape: its size in this step, and where it was seen first


class ExpectationFailed(NbdebugError, AssertionError):
    """A tapped value is not what it was expected to be; the message has the module, the step and the values."""

    def __init__(self, reading: Reading, expected: str, found: str) -> None:
        self.reading, self.expected, self.found = reading, expected, found
        super().__init__(
            f"{reading.place}: expected {expected}, but {found}.\n  It is {summary(reading.facts)}.\n"
            f"  The tap only looked: it changed nothing."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild from the three parts."""
        return ExpectationFailed, (self.reading, self.expected, self.found)


@dataclass(frozen=True)
class Expectation:
    """One thing that has to hold: in words, and a function that says what is found instead, or nothing."""

    says: str
    fault: Callable[[torch.Tensor, Letters, str], str]


def expectations(
    *,
    finite: bool = False,
    positive: bool = False,
    low: float | None = None,
    high: float | None = None,
    shape: Sequence[Size] | None = None,
    dtype: torch.dtype | str | None = None,
    monotone: str | None = None,
    holds: Callable[[torch.Tensor], Any] | None = None,
) -> list[Expectation]:
    """Turn the words of `Tap.expect` into expectations; the cheap ones come first."""
    made = []
    if shape is not None:
        made.append(_shape(shape))
    if dtype is not None:
        made.append(_dtype(dtype))
    if finite:
        made.append(_elements("finite values", lambda x: ~torch.isfinite(x)))
    if positive:
        made.append(_elements("positive values", lambda x: ~(x > 0)))
    if low is not None:
        made.append(_elements(f"values of at least {low:g}", lambda x: ~(x >= low)))
    if high is not None:
        made.append(_elements(f"values of at most {high:g}", lambda x: ~(x <= high)))
    if monotone is not None:
        made.append(_monotone(monotone))
    if holds is not None:
        made.append(_custom(holds))
    if not made:
        raise BadInput(
            "nothing is expected",
            where="tap.expect",
            expected="one or more of finite, positive, low, high, shape, dtype, monotone, holds",
            do='write for example tap.expect(finite=True, shape=("B", 256))',
        )
    return made


def _elements(says: str, wrong: Callable[[torch.Tensor], torch.Tensor]) -> Expectation:
    def fault(value: torch.Tensor, letters: Letters, name: str) -> str:
        bad = wrong(value)
        if not bool(bad.any()):
            return ""
        return f"{int(bad.sum())} of {value.numel()} are not ({first_values(value, bad)})"

    return Expectation(says, fault)


def _shape(sizes: Sequence[Size]) -> Expectation:
    if isinstance(sizes, str) or not all(s is None or s is ... or isinstance(s, (int, str)) for s in sizes):
        raise BadInput(
            f"{sizes!r} is no shape",
            where="tap.expect",
            expected="numbers, letters that stand for one size each, None for any size, ... for any dimensions",
            do='write for example shape=("B", "T", 256) or shape=(..., 256)',
        )
    says = "the shape (" + ", ".join("…" if s is ... else "any" if s is None else str(s) for s in sizes) + ")"

    def fault(value: torch.Tensor, letters: Letters, name: str) -> str:
        actual, wanted = tuple(value.shape), list(sizes)
        if ... in wanted:
            at = wanted.index(...)
            wanted[at : at + 1] = [None] * (len(actual) - len(wanted) + 1)
        if len(actual) != len(wanted):
            return f"the shape is {actual}, with {len(actual)} dimensions"
        for dim, (size, want) in enumerate(zip(actual, wanted, strict=True)):
            if isinstance(want, str):
                bound, seen = letters.setdefault(want, (size, name))
                if bound != size:
                    return f"the shape is {actual}: {want} is {size} here and {bound} at {seen}"
            elif want is not None and want != size:
                return f"the shape is {actual}: dimension {dim} is {size}"
        return ""

    return Expectation(says, fault)


def _dtype(dtype: torch.dtype | str) -> Expectation:
    wanted = str(dtype).removeprefix("torch.")

    def fault(value: torch.Tensor, letters: Letters, name: str) -> str:
        actual = str(value.dtype).removeprefix("torch.")
        return "" if actual == wanted else f"it is {actual}"

    return Expectation(f"the type {wanted}", fault)


def _monotone(direction: str) -> Expectation:
    if direction not in ("rising", "falling"):
        raise BadInput(
            f"monotone={direction!r}",
            where="tap.expect",
            expected="'rising' or 'falling', along the last dimension",
            do="write monotone='rising' for values that never fall",
        )
    sign = 1 if direction == "rising" else -1

    def fault(value: torch.Tensor, letters: Letters, name: str) -> str:
        if value.dim() == 0 or value.shape[-1] < 2:
            return ""
        bad = torch.zeros_like(value, dtype=torch.bool)
        bad[..., 1:] = ~(sign * (value[..., 1:] - value[..., :-1]) >= 0)
        return f"{int(bad.sum())} steps are not ({first_values(value, bad)})" if bool(bad.any()) else ""

    return Expectation(f"values {direction} along the last dimension", fault)


def _custom(holds: Callable[[torch.Tensor], Any]) -> Expectation:
    says = getattr(holds, "__name__", type(holds).__name__)

    def fault(value: torch.Tensor, letters: Letters, name: str) -> str:
        try:
            return "" if bool(holds(value)) else f"it does not hold for {first_values(value)}"
        except Exception as error:
            return f"it could not be asked: {type(error).__name__}: {error}"

    return Expectation("your condition to hold" if says == "<lambda>" else f"{says} to hold", fault)
