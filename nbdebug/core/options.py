"""Refuse options of `diagnose` that mean nothing, before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nbdebug.core.control import EFFORTS, Effort
from nbdebug.errors import BadInput

__all__ = ["check_thresholds", "check_time_limit", "checked_effort", "checked_ids", "checked_options"]


def checked_options(
    *,
    thresholds: Any,
    time_limit: Any,
    seed: Any,
    progress: Any,
    tell_apart: Any,
    samples: Any,
    seconds: Any,
) -> None:
    """Look at every option that is a number or a switch."""
    check_thresholds(thresholds)
    check_time_limit(time_limit)
    _check_number(seconds, "sweep_seconds", "a number of seconds above 0", "sweep_seconds=10")
    _check_number(samples, "sweep_samples", "a number of samples above 0", "sweep_samples=4096")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise _bad("seed", seed, "an integer from 0 to 4294967295", "seed=0")
    for name, value in (("progress", progress), ("tell_apart", tell_apart)):
        if value not in (True, False) and not (name == "progress" and callable(value)):
            raise _bad(name, value, "True or False", f"{name}=False")


def checked_ids(ids: Any, name: str) -> list[str]:
    """Return the ids of checks as a list; whether there are such checks is looked up where they are known."""
    if isinstance(ids, str):
        raise _bad(name, ids, "a list of check ids", f"{name}=[{ids!r}]")
    listed: list[Any] = list(ids) if isinstance(ids, Iterable) else [None]
    if not all(isinstance(item, str) for item in listed):
        raise _bad(name, ids, "a list of check ids", f'{name}=["batch-mixing"]; nbdebug.list_checks() lists them')
    return listed


def check_time_limit(time_limit: Any) -> None:
    """Refuse a time limit that is no time."""
    _check_number(time_limit, "time_limit", "a number of seconds above 0, or None", "time_limit=60", optional=True)


def checked_effort(effort: Any, quick: Any = False) -> Effort:
    """Return the effort of a run; `quick=True` is another way to write effort="quick"."""
    if effort not in EFFORTS:
        raise _bad("effort", effort, '"quick", "normal" or "thorough"', 'effort="thorough"')
    if quick not in (True, False):
        raise _bad("quick", quick, "True or False", "quick=False")
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
