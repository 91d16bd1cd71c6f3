"""The exceptions that nbdebug raises, with messages written for the user."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

__all__ = [
    "BadInput",
    "Cancelled",
    "CopyNotIsolated",
    "ModelTooLarge",
    "NbdebugError",
    "NotApplicable",
    "OutOfTime",
    "SandboxRefused",
    "UnknownArgument",
    "described",
    "plainly",
]

F = TypeVar("F", bound=Callable[..., Any])
UNCHANGED = "Your model, data and variables are unchanged."


class NbdebugError(Exception):
    """Base class of all exceptions that nbdebug raises."""

    def _render_traceback_(self) -> list[str]:
        """Show only the message in a notebook; the frames inside nbdebug do not help the user."""
        return [f"{type(self).__name__}: {self}"]


class BadInput(NbdebugError, ValueError):
    """An argument is invalid; the message states what is expected."""

    def __init__(self, seen: str, *, where: str, expected: str, do: str) -> None:
        self.seen, self.where, self.expected, self.do = seen, where, expected, do
        super().__init__(f"{where}: {seen}\n  Expected: {expected}\n  What to do: {do}\n  {UNCHANGED}")

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild from the four parts, because the parts are keyword-only."""
        return _bad_input, (type(self), self.seen, self.where, self.expected, self.do)


def _bad_input(kind: type[BadInput], seen: str, where: str, expected: str, do: str) -> BadInput:
    return kind(seen, where=where, expected=expected, do=do)


class UnknownArgument(BadInput, TypeError):
    """A function has no argument of this name; as in Python itself it is a TypeError."""


class SandboxRefused(NbdebugError):
    """The model cannot be copied for experiments."""


class ModelTooLarge(SandboxRefused):
    """There is not enough memory for a copy of the model: what needs none is judged all the same."""


class CopyNotIsolated(SandboxRefused):
    """The copy of the model uses the model itself, so that no experiment on it would be about the copy."""


class NotApplicable(NbdebugError):
    """A check or probe does not apply to this setup; the message is the reason."""


class OutOfTime(NbdebugError):
    """An experiment reached its time limit before the result was clear."""


class Cancelled(NbdebugError):
    """The running experiment was canceled."""


def plainly(function: F) -> F:
    """Remove nbdebug's own frames from the traceback of user-facing exceptions."""

    @wraps(function)
    def said_plainly(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (BadInput, SandboxRefused) as error:
            raise error.with_traceback(None) from None

    return cast("F", said_plainly)


def described(error: BaseException) -> str:
    """Return the error and its line, and release the tensors that the traceback holds."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" (line {frames[-1].lineno} of {frames[-1].filename.rsplit('/', 1)[-1]})" if frames else ""
    traceback.clear_frames(error.__traceback__)
    return f"{type(error).__name__}: {error}{place}"
