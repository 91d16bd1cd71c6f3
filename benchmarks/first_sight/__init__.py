"""Programs that were written apart from nbdebug, to be diagnosed at first sight: faulty ones with their repaired twins,
and sound ones around public libraries.

`python -m benchmarks.first_sight round_2 --out FILE` diagnoses each in a process of its own. The results of the first
run, on code that was frozen before, are kept in `benchmarks/results/`; docs/benchmark.md shows them. A program is
written once and never changed for nbdebug; its style is that of whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["TRIALS", "Trial", "pair", "sound"]

Make = Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class Trial:
    """A program: `pair` is made faulty by `make(True)` and repaired by `make(False)`, `sound` by `make()`.

    `cause` says what is wrong, or what the program is; `accepted` are the ids of checks that would say so.
    """

    name: str
    kind: str
    cause: str
    where: str
    source: str
    make: Make
    accepted: tuple[str, ...] = ()

    @property
    def variants(self) -> tuple[str, ...]:
        """What can be made of it."""
        return ("faulty", "repaired") if self.kind == "pair" else ("sound",)

    def made(self, variant: str) -> dict[str, Any]:
        """Return the arguments of `nbdebug.diagnose` for one variant."""
        return self.make() if variant == "sound" else self.make(variant == "faulty")


TRIALS: list[Trial] = []


def pair(cause: str, *, where: str = "", source: str = "", accepted: tuple[str, ...] = ()) -> Callable[[Make], Make]:
    """Register a program with one fault and its repaired twin."""

    def register(make: Make) -> Make:
        TRIALS.append(Trial(make.__name__, "pair", cause, where, source, make, accepted))
        return make

    return register


def sound(what: str, *, source: str = "") -> Callable[[Make], Make]:
    """Register a program with nothing wrong."""

    def register(make: Make) -> Make:
        TRIALS.append(Trial(make.__name__, "sound", what, "", source, make))
        return make

    return register
