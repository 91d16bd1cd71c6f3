"""Patches: apply a fix to a copy so that it can be verified. Each is found by its name.

A patch takes a `Sandbox`, right after it was copied, or a `Setup` that was derived for the verification, and modifies
it in place; settings are keyword-only. Where it cannot be applied it raises `NotApplicable` with the reason.
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

from nbdebug.core.control import Control
from nbdebug.core.remedy import Remedy
from nbdebug.errors import BadInput, NotApplicable
from nbdebug.sandbox import Sandbox, guarded
from nbdebug.setup import Setup

__all__ = ["Judged", "PatchSpec", "all_patches", "patch", "patched", "spec_of"]

F = TypeVar("F", bound=Callable[..., None])
Judged = Literal["loss", "answers", "shares", "classes", "check", "clean"]


@dataclass(frozen=True)
class PatchSpec:
    """A patch: its function, whether it modifies the setup, and the criterion for success.

    By `loss` where the loss function stays the same; by `answers` (predictions) where the patched copy has another loss
    function, or the data are sampled differently; by `shares` where equally good predictions still leave the remaining
    fraction of the initial loss to compare; by `classes` (every class weighted equally) where rare classes are the
    purpose; by the `check` alone where the problem does not show in a short run, which then must not become worse; as
    `clean` where the fix takes away what made the task too easy, so that the run only has to train.
    """

    name: str
    function: Callable[..., None]
    on_setup: bool
    judged_by: Judged


_PATCHES: dict[str, PatchSpec] = {}


def patch(judged_by: Judged = "loss") -> Callable[[F], F]:
    """Register a function as a patch under its own name."""

    def register(function: F) -> F:
        kind = next(iter(typing.get_type_hints(function).values()))
        name = function.__name__.replace("_", "-")
        _PATCHES[name] = PatchSpec(name, function, kind is Setup, judged_by)
        return function

    return register


def all_patches() -> dict[str, PatchSpec]:
    """Return every patch by its name."""
    for module in pkgutil.iter_modules(__path__):
        if not module.ispkg:
            importlib.import_module(f"{__name__}.{module.name}")
    return _PATCHES


def spec_of(remedy: Remedy) -> PatchSpec:
    """Return the patch of a remedy; a file from a newer version may name an unknown one."""
    if remedy.patch is None:
        raise NotApplicable("this fix cannot be applied automatically")
    if remedy.patch.name not in all_patches():
        raise BadInput(
            f"unknown patch {remedy.patch.name!r}",
            where="remedy",
            expected=f"one of {', '.join(sorted(_PATCHES))}",
            do="run nbdebug.diagnose again with this version",
        )
    return _PATCHES[remedy.patch.name]


def patched(setup: Setup, remedy: Remedy) -> Setup:
    """Return a setup whose every copy has this patch applied; leave the given one unchanged."""
    spec = spec_of(remedy)
    assert remedy.patch is not None
    known = inspect.signature(spec.function).parameters
    settings = {name: value for name, value in remedy.patch.settings.items() if name in known}
    change = partial(spec.function, **settings)
    if not spec.on_setup:
        return setup.derived(typing.cast("Callable[[Sandbox], None]", change))
    other = setup.derived()
    guarded(lambda: change(other), setup.live_parts(), Control())  # some read samples, and reading draws
    return other
