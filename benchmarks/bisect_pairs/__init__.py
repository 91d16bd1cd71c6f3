"""Pairs of set-ups for `bisect`: one or two differences that matter among several that do not, or none that does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["PAIRS", "Pair", "pair"]

Maker = Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class Pair:
    """A way to build a set-up, what the bad one is built with, and the ingredients that make it fail (none: it learns).

    `is_held_out` says that it was written apart from the search and not used to choose anything in it.
    """

    name: str
    family: str
    make: Maker
    bad: dict[str, Any]
    matters: frozenset[str]
    is_held_out: bool
    metric: Callable[..., float] | None = None

    def good_setup(self) -> dict[str, Any]:
        """Return the set-up that learns."""
        return self.make()

    def bad_setup(self) -> dict[str, Any]:
        """Return the one that does not, or that learns as well."""
        return self.make(**self.bad)


PAIRS: list[Pair] = []


def pair(
    name: str, family: str, make: Maker, matters: str, /, *, held_out: bool, metric: Any = None, **bad: Any
) -> None:
    """Register a pair; `matters` names ingredients, separated by commas."""
    named = frozenset(part.strip() for part in matters.split(",") if part.strip())
    PAIRS.append(Pair(name, family, make, bad, named, held_out, metric))
