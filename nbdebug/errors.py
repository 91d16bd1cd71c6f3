"""The errors that nbdebug raises, each written for the person who gets it."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

__all__ = [
    "BadInput",
    "Cancelled",
    "CopyNotIsolated",
    "NbdebugError",
    "NotApplicable",
    "OutOfTime",
    "TwinRefused",
    "described",
    "plainly",
]

F = TypeVar("F", bound=Callable[..., Any])
UNCHANGED = "Nothing of yours was changed."


class NbdebugError(Exception):
    """Base of every error that nbdebug raises on purpose."""

    def _render_traceback_(self) -> list[str]:
        """Show the message alone in a notebook: it says all, and the lines inside nbdebug help nobody."""
        return [f"{type(self).__name__}: {self}"]


class BadInput(NbdebugError, ValueError):
    """Something that was handed to nbdebug cannot be used; the message says what to hand instead."""

    def __init__(self, seen: str, *, where: str, expected: str, do: str) -> None:
        self.seen, self.where, self.expected, self.do = seen, where, expected, do
        super().__init__(f"{where}: {seen}\n  Expected: {expected}\n  What to do: {do}\n  {UNCHANGED}")

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild from the four parts, because the parts are keyword-only."""
        return _bad_input, (self.seen, self.where, self.expected, self.do)


def _bad_input(seen: str, where: str, expected: str, do: str) -> BadInput:
    return BadInput(seen, where=where, expected=expected, do=do)


class TwinRefused(NbdebugError):
    """No copy of the model could be made that experiments may run on."""


class CopyNotIsolated(TwinRefused):
    """The copy of the model uses the model itself, so that no experiment on it would be about the copy."""


class NotApplicable(NbdebugError):
    """A check or a probe has nothing to say about this set-up; the message is the reason."""


class OutOfTime(NbdebugError):
    """An experiment reached its time limit before its answer was clear."""


class Cancelled(NbdebugError):
    """Somebody asked the running experiment to stop."""


def plainly(function: F) -> F:
    """Let an error that is meant for the user leave a function without the lines of nbdebug that it passed through."""

    @wraps(function)
    def said_plainly(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (BadInput, TwinRefused) as error:
            raise error.with_traceback(None) from None

    return cast("F", said_plainly)


def described(error: BaseException) -> str:
    """Say what went wrong and where, and let go of the tensors that the traceback holds."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" (line {frames[-1].lineno} of {frames[-1].filename.rsplit('/', 1)[-1]})" if frames else ""
    traceback.clear_frames(error.__traceback__)
    return f"{type(error).__name__}: {error}{place}"
