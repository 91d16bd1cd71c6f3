"""The generator of mutants: healthy set-ups into which one fault was put, with what has to be said about it.

A *fault* is a function that makes one mistake in any set-up where that makes sense, registered with the ids of the
checks that name its root cause. It gives the place that should be named, or None where there is none, and raises
`DoesNotFit` where the mistake cannot be made or would do no harm.
"""

from __future__ import annotations

import importlib
import pkgutil
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from tests.examples import Healthy, all_healthy
from tests.mutants.case import Case, DoesNotFit

Places = tuple[str, ...] | None
Inject = Callable[[Case], "str | Places"]


@dataclass(frozen=True)
class Fault:
    """One kind of mistake, the checks that name its root cause (the canonical one first), and how it is made."""

    kind: str
    accepted: tuple[str, ...]
    inject: Inject


@dataclass(frozen=True)
class Mutant:
    """A fault in a healthy set-up."""

    fault: Fault
    host: Healthy

    @property
    def name(self) -> str:
        """The fault and where it was put."""
        return f"{self.fault.kind}@{self.host.name}"

    def make(self, seed: int = 0) -> tuple[dict[str, Any], Places]:
        """Return the keyword arguments of `nbdebug.diagnose` with the fault in them, and the places it is at."""
        torch.manual_seed(seed)
        case = Case(self.host.make())
        where = self.fault.inject(case)
        return case.setup, (where,) if isinstance(where, str) else where


FAULTS: list[Fault] = []


def fault(*accepted: str) -> Callable[[Inject], Inject]:
    """Register a function as a fault; `accepted` are the checks whose finding names the root cause."""

    def register(inject: Inject) -> Inject:
        FAULTS.append(Fault(inject.__name__, accepted, inject))
        return inject

    return register


def all_faults() -> list[Fault]:
    """Return every kind of fault."""
    for module in pkgutil.iter_modules(__path__):
        if module.name.endswith("_faults"):
            importlib.import_module(f"{__name__}.{module.name}")
    return FAULTS


def all_mutants(each: int | None = None, only: str = "") -> Iterator[Mutant]:
    """Return every fault in every set-up that it fits, or in so many set-ups each, spread over the whole zoo.

    `only` keeps those whose name holds this text.
    """
    for kind in all_faults():
        found = 0
        known = [host for host in all_healthy() if "tutorial_" not in host.make.__module__]  # as in the runs on record
        hosts = sorted(known, key=lambda host: zlib.crc32(f"{kind.kind}@{host.name}".encode()))
        for host in hosts:
            mutant = Mutant(kind, host)
            if each is not None and found >= each:
                break
            if only in f"mutant:{mutant.name}" and _fits(mutant):
                found += 1
                yield mutant


def _fits(mutant: Mutant) -> bool:
    try:
        mutant.make()
    except DoesNotFit:
        return False
    return True
