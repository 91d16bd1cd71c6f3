"""Programs around public libraries, as their users write them: sound, and with one fault each.

A program is a function that returns the arguments of `nbdebug.diagnose`. Without an argument it is sound, and no check
may raise an alarm on it; with the name of one of its faults it has that fault, which one of the checks that are listed
has to name. A library that is missing skips what needs it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch.utils.data import Dataset

Make = Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class Program:
    """A program of a family, the libraries that it needs, and its faults with the checks that would name them."""

    name: str
    family: str
    needs: tuple[str, ...]
    make: Make
    faults: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


PROGRAMS: list[Program] = []


def program(family: str, *needs: str, **faults: tuple[str, ...]) -> Callable[[Make], Make]:
    """Register a program: its family, its libraries, and for each fault the ids that would name it."""

    def register(make: Make) -> Make:
        PROGRAMS.append(Program(make.__name__, family, needs, make, faults))
        return make

    return register


def all_programs() -> list[Program]:
    """Return every program; the libraries are imported when one is made."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return PROGRAMS


class Columns(Dataset[Any]):
    """Samples that are dicts, as the data sets of Hugging Face are."""

    def __init__(self, **columns: Any) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {name: column[index] for name, column in self.columns.items()}
