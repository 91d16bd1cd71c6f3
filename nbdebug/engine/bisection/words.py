"""The answer of a bisection in a sentence or two, with its numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nbdebug.core.text import figure

if TYPE_CHECKING:
    from nbdebug.engine.bisection.result import Bisection

__all__ = ["sentence", "valued"]

READ = {"dataset", "transform", "collate"}
SHARES = ("accuracy", "balanced accuracy", "explained variance")


def sentence(result: Bisection) -> str:
    """Return the answer: what is to blame, with the metric with and without it, or why nothing is named."""
    if result.cause is not None:
        return _explained(result)
    good, bad = (valued(result, value) for value in (result.good_value, result.bad_value))
    why = result.notes[-1] if result.notes else ""
    said = {
        "both learn": f"Both learn: there is nothing to explain (`good`: {good}, `bad`: {bad}).{_read_once(result)}",
        "slower": f"Both learn: `bad` gets there as well, only more slowly ({why}; `good`: {good}, `bad`: {bad}).",
        "good fails": f"`good` does not learn either (`good`: {good} on held-out samples). Pass a set-up that learns, "
        "or more steps=….",
        "depends on the start": f"No cause is named, because it depends on the random start: {why}.",
        "not measured": f"The two cannot be compared: {why}.",
        "nothing differs": f"`bad` fails (`good`: {good}, `bad`: {bad}), and nothing that can be exchanged differs.",
        "not explained": f"`bad` fails (`good`: {good}, `bad`: {bad}) even with every ingredient of `good` that can be "
        "exchanged: the cause is something that is not compared.",
    }
    return said.get(result.outcome) or _stopped(result)


def _read_once(result: Bisection) -> str:
    """Return what such trainings cannot show, where the data of the two are made differently."""
    if not READ & {row.name for row in result.differences.rows}:
        return ""
    return (
        " Each sample is read once for all trainings: data that change when they are read again are found by "
        "`nbdebug.diagnose` on `bad`."
    )


def valued(result: Bisection, value: float) -> str:
    """Return a value of the metric as people write it."""
    if math.isnan(value):
        return "not trained"
    return f"{value:.0%}" if result.measure in SHARES else f"{result.measure} {figure(value)}"


def _explained(result: Bisection) -> str:
    cause = result.cause
    assert cause is not None
    good, bad, reached = (valued(result, v) for v in (result.good_value, result.bad_value, cause.value))
    values = f"(`good`: {good}, `bad`: {bad})"
    their = "it" if len(cause.names) == 1 else "both" if len(cause.names) == 2 else "them"
    named = cause.text
    if result.also:
        other = result.also[0]
        return (
            f"`bad` fails because of its {named} together with its {other.text}: with `good`'s {named} it reaches "
            f"{reached}, with `good`'s {other.text} {valued(result, other.value)} {values}."
        )
    text = f"`bad` fails because of its {named}: with `good`'s {named} it reaches {reached} {values}."
    if not cause.is_confirmed:
        text += f" From another random start it reaches only {valued(result, cause.again)}."
    if cause.parts:
        text += f" Enough of it: {', '.join(_part(p.name) for p in cause.parts)}."
    if cause.alone:
        each = ", ".join(f"{name} {valued(result, value)}" for name, value in cause.alone)
        kind = "Each of them breaks `good` by itself" if cause.are_separate else "They only matter together"
        return f"{text} It takes {their}: with one alone, {each}. {kind}."
    return f"{text} Second: {_second(result)}."


def _second(result: Bisection) -> str:
    if result.second is None:
        return "none"
    return f"its {result.second.text}, with which it reaches {valued(result, result.second.value)}"


def _part(name: str) -> str:
    return f"`{name.partition(': ')[2]}`"


def _stopped(result: Bisection) -> str:
    if not result.tried:
        return f"Stopped before anything was trained ({result.stopped})."
    if result.names:
        return f"Stopped ({result.stopped}). As far as it is known, the cause is among: {', '.join(result.names)}."
    return f"Stopped ({result.stopped}) before `good` and `bad` were trained to the end."
