"""One of the two set-ups as it was handed over: a dict, an object, a function that makes it, or the name of one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from nbdebug.core.control import Control
from nbdebug.core.entry_point import imported
from nbdebug.errors import BadInput
from nbdebug.sandbox import guarded
from nbdebug.setup import Setup

__all__ = ["Given", "Name", "Switches", "given", "switches_now", "use_switches"]

Name = Literal["good", "bad"]
Switches = dict[str, Any]
EXPECTED = "a dict of the arguments of nbdebug.diagnose, an object with such attributes, or a function that returns one"
EXAMPLE = '{name}={{"model": model, "loader": loader, "loss_fn": loss_fn, "optimizer": optimizer}}'
PARTS = tuple(name for name in inspect.signature(Setup.__init__).parameters if name != "self")

# The global switches that decide what a training computes: how each is read and set.
_SWITCHES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "float32 matmul precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "deterministic algorithms": (
        torch.are_deterministic_algorithms_enabled,
        lambda value: torch.use_deterministic_algorithms(value, warn_only=True),
    ),
}


@dataclass
class Given:
    """A set-up with the global switches and the seed that its function leaves behind."""

    name: Name
    setup: Setup
    switches: Switches = field(default_factory=dict)
    seed: int | None = None  # set by the function that makes it; unknown where objects were passed

    @property
    def live_parts(self) -> tuple[Any, ...]:
        """The user's own objects, which have to stay as they are."""
        return self.setup.live_parts()


def given(value: Any, name: Name, control: Control) -> Given:
    """Return what was handed over as a set-up; a function is called once, and what it switches is restored."""
    if isinstance(value, str):
        value = imported(value)
    if isinstance(value, Given):
        return value
    if isinstance(value, Setup):
        return Given(name, value, switches_now())
    if callable(value) and not _has_parts(value):
        return guarded(lambda: _called(value, name), (), control)
    return Given(name, _setup_of(value, name), switches_now())


def _called(function: Callable[[], Any], name: Name) -> Given:
    before = torch.initial_seed()
    try:
        made = function()
    except Exception as error:
        raise _bad(
            name, f"the function raised {type(error).__name__}: {error}", "call it separately and fix it"
        ) from error
    seed = torch.initial_seed()
    return Given(name, _setup_of(made, name), switches_now(), seed if seed != before else None)


def _setup_of(value: Any, name: Name) -> Setup:
    if isinstance(value, Setup):
        return value
    if isinstance(value, Mapping):
        parts = {str(key): part for key, part in value.items()}
    elif _has_parts(value):
        parts = {part: getattr(value, part) for part in PARTS if getattr(value, part, None) is not None}
    else:
        raise _bad(name, f"it is a {type(value).__name__}", EXAMPLE.format(name=name))
    unknown = sorted(set(parts) - set(PARTS) - _options())
    if unknown or not {"model", "loader"} <= set(parts):
        missing = [part for part in ("model", "loader") if part not in parts]
        seen = (
            f"it has no {' and no '.join(missing)}" if missing else f"{unknown[0]!r} is no argument of nbdebug.diagnose"
        )
        raise _bad(name, seen, EXAMPLE.format(name=name))
    try:
        return Setup(**{part: value for part, value in parts.items() if part in PARTS})
    except BadInput as error:
        raise BadInput(error.seen, where=f"{name}[{error.where!r}]", expected=error.expected, do=error.do) from error


def _options() -> set[str]:
    """Return the arguments of `diagnose` that say how it runs, which mean nothing here and do no harm."""
    from nbdebug.engine.diagnosis import DIAGNOSE_NAMES

    return set(DIAGNOSE_NAMES)


def _has_parts(value: Any) -> bool:
    return isinstance(value, Mapping) or (hasattr(value, "model") and hasattr(value, "loader"))


def switches_now() -> Switches:
    """Return the global switches as they are."""
    return {name: read() for name, (read, _) in _SWITCHES.items()}


def use_switches(switches: Switches) -> None:
    """Set global switches; called where a guard puts them back."""
    for name, value in switches.items():
        read, put = _SWITCHES[name]
        if read() != value:
            put(value)


def _bad(name: str, seen: str, do: str) -> BadInput:
    return BadInput(seen, where=name, expected=EXPECTED, do=f"write {do}" if "=" in do else do)
