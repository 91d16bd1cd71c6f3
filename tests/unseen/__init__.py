"""Faulty set-ups written apart from the checks, each in a style of its own: the benchmark's blind trial.

Unlike a failing example, a set-up here was not written to be found by a check; `accepted` are the ids whose finding
would tell its author what is wrong, and `where` the places that would be right to name.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

from tests.examples import Make


@dataclass(frozen=True)
class Unseen:
    """A set-up with one fault, what has to be said about it, and where."""

    name: str
    accepted: tuple[str, ...]
    make: Make
    where: tuple[str, ...] | None


UNSEEN: list[Unseen] = []


def unseen(*accepted: str, where: str | tuple[str, ...] | None = None) -> Callable[[Make], Make]:
    """Register a faulty set-up."""
    places = (where,) if isinstance(where, str) else where

    def register(make: Make) -> Make:
        UNSEEN.append(Unseen(make.__name__, accepted, make, places))
        return make

    return register


def all_unseen() -> list[Unseen]:
    """Return every faulty set-up of the blind trial."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return UNSEEN
