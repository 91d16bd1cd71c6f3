"""Patches: what a remedy does to a copy so that it can be tried. Each is found by its name.

A patch takes a `Twin`, right after it was copied, or a `Subject` that was derived for the trial, and changes it in
place; settings are keyword-only. Where it cannot be done it raises `NotApplicable` with the reason.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import typing
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar

from nbdebug.errors import BadInput, NotApplicable
from nbdebug.remedy import Remedy
from nbdebug.subject import Subject
from nbdebug.twin import Twin

__all__ = ["Judged", "PatchSpec", "all_patches", "patch", "patched", "spec_of"]

F = TypeVar("F", bound=Callable[..., None])
Judged = Literal["loss", "answers", "shares", "classes", "check"]


@dataclass(frozen=True)
class PatchSpec:
    """A patch: its function, whether it works on the subject, and by what its success is judged.

    By `loss` where it stays the same function; by `answers` where the loss of the patched copy is another one, or the
    data are drawn otherwise; by `shares` where answers that are equally good still leave the share of the first loss
    that is left to compare; by `classes` (every class counting alike) where rare classes are what it is for; by the
    `check` alone where the illness does not show in a short training, which then must not become worse.
    """

    name: str
    function: Callable[..., None]
    on_subject: bool
    judged_by: Judged


_PATCHES: dict[str, PatchSpec] = {}


def patch(judged_by: Judged = "loss") -> Callable[[F], F]:
    """Register a function as the patch of its name."""

    def register(function: F) -> F:
        kind = next(iter(typing.get_type_hints(function).values()))
        name = function.__name__.replace("_", "-")
        _PATCHES[name] = PatchSpec(name, function, kind is Subject, judged_by)
        return function

    return register


def all_patches() -> dict[str, PatchSpec]:
    """Give every patch by its name."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return _PATCHES


def spec_of(remedy: Remedy) -> PatchSpec:
    """Give the patch of a remedy; one that a newer version wrote into a file may not be known here."""
    if remedy.patch is None:
        raise NotApplicable("this remedy cannot be tried automatically")
    if remedy.patch.name not in all_patches():
        raise BadInput(
            f"there is no patch called {remedy.patch.name!r}",
            where="remedy",
            expected=f"one of {', '.join(sorted(_PATCHES))}",
            do="run nbdebug.diagnose again with this version",
        )
    return _PATCHES[remedy.patch.name]


def patched(subject: Subject, remedy: Remedy) -> Subject:
    """Give a subject whose every twin carries the patch of this remedy; the given one stays as it is."""
    spec = spec_of(remedy)
    assert remedy.patch is not None
    known = inspect.signature(spec.function).parameters
    settings = {name: value for name, value in remedy.patch.settings.items() if name in known}
    change = partial(spec.function, **settings)
    if not spec.on_subject:
        return subject.derived(typing.cast("Callable[[Twin], None]", change))
    other = subject.derived()
    change(other)
    return other
