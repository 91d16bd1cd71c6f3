"""Hooks on a live model that turn into nothing when the model is copied or saved."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

__all__ = ["LiveHook", "inert"]


def inert() -> Callable[..., None]:
    """Return a function that takes anything and does nothing, and that can be unpickled where there is no nbdebug."""
    return nullcontext().__exit__


class LiveHook:
    """A hook that calls a function, but whose copies and pickles do nothing.

    A closure as a hook would break `torch.save(model)` and `deepcopy(model)`, or report the copy's calls as the
    model's own.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any) -> Any:
        """Call the function."""
        return self.function(*args)

    def __deepcopy__(self, memo: dict[int, Any]) -> Callable[..., None]:
        return inert()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the method of a standard object that ignores what it is given."""
        return getattr, (nullcontext(), "__exit__")
