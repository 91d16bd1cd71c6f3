"""What a tapped value is expected to be, and the error that says it is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.errors import BadInput, NbdebugError
from nbdebug.watch.taps.comparing import above, below, comparable, stored
from nbdebug.watch.taps.reading import Reading, first_values, summary
from nbdebug.watch.taps.steps import Letters
from nbdebug.watch.taps.words import (
    WORDS,
    checked_bounds,
    checked_direction,
    checked_dtype,
    checked_shape,
    checked_words,
)

__all__ = ["Expectation", "ExpectationFailed", "expectations", "one_answer"]

Size = Any  # a number, a letter, None for any size, or ... for any dimensions


class ExpectationFailed(NbdebugError, AssertionError):
    """A tapped value is not what it was expected to be; the message has the module, the step, the values and the line.

    The line is the user's own that was running when the value was seen: a notebook shows the message alone.
    """

    def __init__(self, reading: Reading, expected: str, found: str, line: str = "") -> None:
        self.reading, self.expected, self.found, self.line = reading, expected, found, line
        super().__init__(
            f"{reading.place}: expected {expected}, but {found}.\n  It is {summary(reading.facts)}.\n"
            + (f"  It was seen at {line}\n" if line else "")
            + "  The tap did not modify anything."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild from the four parts."""
        return ExpectationFailed, (self.reading, self.expected, self.found, self.line)


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
    **unknown: Any,
) -> list[Expectation]:
    """Turn the words of `Tap.expect` into expectations; the cheap ones come first."""
    checked_words(unknown, finite=finite, positive=positive)
    low, high = checked_bounds(low, high)
    made = []
    if shape is not None:
        made.append(_shape(checked_shape(shape)))
    if dtype is not None:
        made.append(_dtype(checked_dtype(dtype)))
    if finite:
        made.append(_elements("finite values", lambda x: ~torch.isfinite(x), stored))
    if positive:
        made.append(_elements("positive values", lambda x: ~(x > 0)))
    if low is not None:
        made.append(_elements(f"values of at least {_bound(low)}", lambda x: below(x, low)))
    if high is not None:
        made.append(_elements(f"values of at most {_bound(high)}", lambda x: above(x, high)))
    if monotone is not None:
        made.append(_monotone(checked_direction(monotone)))
    if holds is not None:
        made.append(_custom(holds))
    if not made:
        raise BadInput(
            "no expectation was given",
            where="tap.expect",
            expected=f"one or more of {', '.join(WORDS)}",
            do='write for example tap.expect(finite=True, shape=("B", 256))',
        )
    return made


def _bound(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


def _elements(
    says: str,
    wrong: Callable[[torch.Tensor], torch.Tensor],
    read: Callable[[torch.Tensor], torch.Tensor] = comparable,
) -> Expectation:
    def fault(value: torch.Tensor, letters: Letters, name: str) -> str:
        value = read(value)
        bad = wrong(value)
        if not bool(bad.any()):
            return ""
        return f"{int(bad.sum())} of {value.numel()} are not ({first_values(value, bad)})"

    return Expectation(says, fault)


def _shape(sizes: Sequence[Size]) -> Expectation:
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


def _dtype(dtype: torch.dtype) -> Expectation:
    wanted = str(dtype).removeprefix("torch.")

    def fault(value: torch.Tensor, letters: Letters, name: str) -> str:
        actual = str(value.dtype).removeprefix("torch.")
        return "" if actual == wanted else f"it is {actual}"

    return Expectation(f"the type {wanted}", fault)


def _monotone(direction: str) -> Expectation:
    def fault(value: torch.Tensor, letters: Letters, name: str) -> str:
        if value.dim() == 0 or value.shape[-1] < 2:
            return ""
        value = comparable(value)
        earlier, later = value[..., :-1], value[..., 1:]  # not by their difference, which wraps around or is inf - inf
        bad = torch.zeros_like(value, dtype=torch.bool)
        bad[..., 1:] = ~(later >= earlier if direction == "rising" else later <= earlier)
        return f"{int(bad.sum())} steps are not ({first_values(value, bad)})" if bool(bad.any()) else ""

    return Expectation(f"values {direction} along the last dimension", fault)


def one_answer(error: Exception) -> str:
    """Say what to write where a condition gives a whole tensor of answers."""
    is_many = isinstance(error, RuntimeError) and "Boolean value of Tensor" in str(error)
    return "; return a single bool, as in (value < 3).all() or (value > 0).any()" if is_many else ""


def _custom(holds: Callable[[torch.Tensor], Any]) -> Expectation:
    says = getattr(holds, "__name__", type(holds).__name__)

    def fault(value: torch.Tensor, letters: Letters, name: str) -> str:
        try:
            return "" if bool(holds(value)) else f"it does not hold for {first_values(value)}"
        except Exception as error:
            return f"it could not be evaluated: {type(error).__name__}: {error}{one_answer(error)}"

    return Expectation("your condition to hold" if says == "<lambda>" else f"{says} to hold", fault)
