"""A copy that is made when an experiment first asks for it: many find before that that they do not apply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbdebug.core.control import Control
from nbdebug.sandbox import Sandbox, copy_setup, make_sandbox, refuse_copy
from nbdebug.setup import Setup

__all__ = ["is_made", "late_sandbox"]

_NO_COPY = ("setup", "control", "batches", "batch", "device", "__class__", "__dict__")


def late_sandbox(setup: Setup, control: Control, on_made: Callable[[Sandbox], object]) -> Sandbox:
    """Return a sandbox whose copies are made by the first look at one of them; what forbids them is raised at once."""
    if setup.patches:
        made = make_sandbox(setup, control)
        on_made(made)
        return made
    refuse_copy(setup)
    return _Late(setup, control, on_made)


def is_made(sandbox: Sandbox) -> bool:
    """Whether the copies of a sandbox exist."""
    return type(sandbox) is not _Late


class _Late(Sandbox):
    """Becomes a plain Sandbox as soon as anything but the batches is asked for."""

    def __init__(self, setup: Setup, control: Control, on_made: Callable[[Sandbox], object]) -> None:
        self.__dict__.update(setup=setup, control=control, _on_made=on_made)

    def __getattribute__(self, name: str) -> Any:
        if name in _NO_COPY:
            return object.__getattribute__(self, name)
        own = object.__getattribute__(self, "__dict__")
        if name in ("train_step", "compute_loss", "loss_fn", "scheduler") and getattr(own["setup"], name) is None:
            return None  # and so is its copy
        _make(self)
        return getattr(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        _make(self)
        setattr(self, name, value)


def _make(late: _Late) -> None:
    own = object.__getattribute__(late, "__dict__")
    made = copy_setup(own["setup"], own["control"])
    on_made = own.pop("_on_made")
    own.update(vars(made))
    object.__setattr__(late, "__class__", Sandbox)
    on_made(late)
