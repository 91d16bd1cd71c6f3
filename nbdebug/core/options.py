"""The options of `diagnose` and `wizard`: one frozen dataclass that refuses what means nothing before anything runs."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from nbdebug.core.control import EFFORTS, Effort
from nbdebug.errors import BadInput, UnknownArgument

__all__ = ["OPTION_NAMES", "Options", "check_thresholds", "check_time_limit", "checked_effort", "options_from"]

MAX_SEED = 2**32


@dataclass(frozen=True)
class Options:
    """The less common arguments of `nbdebug.diagnose` and `nbdebug.wizard`, checked when they are made.

    Each of them may also be passed to these functions as a keyword of its own, which overrides `options`.

    Args:
        test_loader: Another loader that is compared with `loader`, for leakage and distribution shift.
        loss_parts: `loss_parts(model, batch, loss_fn) -> dict`: the terms of the loss by name, so that they can be
            weighed against each other.
        scheduler: Your learning rate scheduler; it is copied with the optimizer.
        checkpoint: A path or a state dict that the model's weights should have come from.
        checks: The ids of the checks to run; all by default. `nbdebug.list_checks()` returns them.
        skip: The ids of checks to leave out.
        thresholds: Other numbers for a check, for example `{"batch-mixing": {"influence": 0.01}}`.
        quick: Another way to write `effort="quick"`.
        time_limit: A limit in seconds instead of that of the effort; what does not fit is reported as not tried.
        seed: The seed of every experiment.
        sweep_samples: The most samples that a look at the data reads, drawn at random over the whole data set.
        sweep_seconds: About the longest time that a look at the data takes, in seconds.
        answers: Answers to the questions of the decision tree by their ids; they are kept in the report.
        tell_apart: Whether the trials run that tell several remaining causes apart by fixing each alone on a copy.
        include_samples: Whether a report that the wizard exports may show pictures of samples.
    """

    test_loader: Any = None
    loss_parts: Callable[..., Any] | None = None
    scheduler: Any = None
    checkpoint: Any = None
    checks: Iterable[str] | None = None
    skip: Iterable[str] = ()
    thresholds: Mapping[str, Mapping[str, Any]] | None = None
    quick: bool = False
    time_limit: float | None = None
    seed: int = 0
    sweep_samples: int = 4096
    sweep_seconds: float = 10.0
    answers: Mapping[str, Any] | None = None
    tell_apart: bool = True
    include_samples: bool = False

    def __post_init__(self) -> None:
        """Refuse what means nothing, and read ids once, because they may come from a generator."""
        check_thresholds(self.thresholds)
        check_time_limit(self.time_limit)
        _check_number(self.sweep_seconds, "sweep_seconds", "a number of seconds above 0", "sweep_seconds=10")
        _check_number(self.sweep_samples, "sweep_samples", "a number of samples above 0", "sweep_samples=4096")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not 0 <= self.seed < MAX_SEED:
            raise _bad("seed", self.seed, f"an integer from 0 to {MAX_SEED - 1}", "seed=0")
        for name in ("tell_apart", "quick"):
            check_switch(getattr(self, name), name)
        object.__setattr__(self, "skip", _checked_ids(self.skip, "skip"))
        if self.checks is not None:
            object.__setattr__(self, "checks", _checked_ids(self.checks, "checks"))

    @property
    def of_setup(self) -> dict[str, Any]:
        """The options that describe what is examined, by their names."""
        names = ("test_loader", "loss_parts", "scheduler", "checkpoint", "sweep_samples", "sweep_seconds")
        return {name: getattr(self, name) for name in names}


OPTION_NAMES = frozenset(field.name for field in fields(Options))


def options_from(options: Any, keywords: Mapping[str, Any], *, function: str, others: Iterable[str]) -> Options:
    """Return the options with these keywords in their place; `others` are the function's own arguments."""
    if options is not None and not isinstance(options, Options):
        raise _bad("options", options, "an nbdebug.Options", "options=nbdebug.Options(seed=1)")
    for name in keywords:
        if name not in OPTION_NAMES:
            raise _unknown(name, function, sorted({*OPTION_NAMES, *others} - {"more"}))
    return replace(options or Options(), **keywords)


def _unknown(name: str, function: str, known: list[str]) -> UnknownArgument:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return UnknownArgument(
        f"{function} has no argument {name!r}",
        where=name,
        expected=f"{near[0]!r}, or another argument" if near else f"one of {', '.join(known)}",
        do=f"write {near[0]}=…" if near else "rename it or leave it out",
    )


def check_switch(value: Any, name: str) -> None:
    """Refuse a switch that is neither on nor off."""
    if value not in (True, False):
        raise _bad(name, value, "True or False", f"{name}=False")


def _checked_ids(ids: Any, name: str) -> tuple[str, ...]:
    """Return the ids of checks; whether there are such checks is looked up where they are known."""
    if isinstance(ids, str):
        raise _bad(name, ids, "a list of check ids", f"{name}=[{ids!r}]")
    listed: tuple[Any, ...] = tuple(ids) if isinstance(ids, Iterable) else (None,)
    if not all(isinstance(item, str) for item in listed):
        raise _bad(name, ids, "a list of check ids", f'{name}=["batch-mixing"]; nbdebug.list_checks() lists them')
    return listed


def check_time_limit(time_limit: Any) -> None:
    """Refuse a time limit that is no time."""
    _check_number(time_limit, "time_limit", "a number of seconds above 0, or None", "time_limit=60", optional=True)


def checked_effort(effort: Any, quick: Any = False) -> Effort:
    """Return the effort of a run; `quick=True` is another way to write effort="quick"."""
    if effort not in EFFORTS:
        near = difflib.get_close_matches(str(effort), EFFORTS, n=1)
        raise _bad("effort", effort, '"quick", "normal" or "thorough"', f'effort="{near[0] if near else "normal"}"')
    check_switch(quick, "quick")
    chosen: Effort = "quick" if quick else effort
    return chosen


def check_thresholds(thresholds: Any) -> None:
    """Refuse thresholds that are not in a dict of dicts."""
    example = 'thresholds={"initial-loss-off": {"too_high": 1.0}}'
    if thresholds is None:
        return
    if not isinstance(thresholds, Mapping) or not all(isinstance(values, Mapping) for values in thresholds.values()):
        raise _bad("thresholds", thresholds, "the thresholds of each check by name, in a dict of dicts", example)


def _check_number(value: Any, name: str, expected: str, example: str, *, optional: bool = False) -> None:
    if optional and value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise _bad(name, value, expected, example)


def _bad(where: str, seen: Any, expected: str, example: str) -> BadInput:
    return BadInput(f"it is {repr(seen)[:60]}", where=where, expected=expected, do=f"write {example}")
