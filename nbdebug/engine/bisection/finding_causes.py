"""From two courses and a list of differences to the ingredients that are named: search, confirm, look for others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from nbdebug.engine.bisection.course import Course, Courses
from nbdebug.engine.bisection.differences import Differences, parts_between
from nbdebug.engine.bisection.gate import HALF, LEAST_GAP, Gate
from nbdebug.engine.bisection.ingredient import Ingredient
from nbdebug.engine.bisection.mixing import Taken
from nbdebug.engine.bisection.network import WEIGHTS
from nbdebug.engine.bisection.result import Cause
from nbdebug.engine.bisection.search import Search, Unit

__all__ = ["Found", "find_causes"]

MOST_ALONE = 3  # ingredients of a cause that are tried one by one


@dataclass
class Found:
    """What the search came to, kept current so that a stop in the middle loses nothing."""

    search: Search
    causes: list[Cause] = field(default_factory=list)
    also: list[Cause] = field(default_factory=list)
    second: Cause | None = None
    among: list[Unit] = field(default_factory=list)  # the cause is among these, as far as is known
    notes: list[str] = field(default_factory=list)
    again: list[Course] = field(default_factory=list)


def find_causes(
    courses: Courses, gate: Gate, differences: Differences, found: Found, tell: Callable[[str], None]
) -> None:
    """Search for the fewest ingredients with which `bad` learns, from two starts, and for others that do as well."""
    names = [row.name for row in differences.exchanged]
    units = _fitting(courses, gate, names, found, tell)
    everything = frozenset(names)
    found.among = units
    if not found.search.learns(everything):
        return
    chosen = found.search.minimal(units)
    found.among = chosen
    cause = _confirmed(found, chosen)
    if len(chosen) > 1:
        cause = _one_by_one(found, cause, chosen, everything)
    found.causes = [cause]
    rest = [unit for unit in units if unit not in chosen]
    if rest and found.search.learns(frozenset().union(*rest)):
        others = found.search.minimal(rest)
        _rank(courses, found, _confirmed(found, others))
    elif rest and found.causes[0].skill < gate.good.skill - LEAST_GAP:
        found.second = _second(courses, gate, found, rest, frozenset().union(*chosen))
    found.causes = [replace(cause, parts=_parts(courses, found, cause)) for cause in found.causes]


def _fitting(
    courses: Courses, gate: Gate, names: Sequence[str], found: Found, tell: Callable[[str], None]
) -> list[Unit]:
    """Put together what only fits together: a loss with the head that it was written for, data with its layers."""
    units = [frozenset([name]) for name in names]
    if gate.bad.failure or len(units) < 2:
        return units
    alone = {unit: _failure(courses, unit, tell) for unit in units}
    misfits = [unit for unit in units if alone[unit]]
    for unit in misfits:
        if unit not in units:
            continue
        partners = [*(u for u in misfits if u != unit and u in units), *(u for u in units if u not in misfits)]
        partner = next((other for other in partners if not _failure(courses, unit | other, tell)), None)
        name = ", ".join(sorted(unit))
        if partner is None:
            found.notes.append(f"{name} does not fit into `bad` by itself ({alone[unit]}).")
            continue
        found.notes.append(f"{name} only fits together with {', '.join(sorted(partner))} ({alone[unit]}).")
        place = min(units.index(unit), units.index(partner))
        units = [u for u in units if u not in (unit, partner)]
        units.insert(place, unit | partner)
    return units


def _failure(courses: Courses, taken: Taken, tell: Callable[[str], None]) -> str:
    """Take one step with these ingredients and return why that is not possible; empty where it is."""
    tell(f"fitting good's {', '.join(sorted(taken))}")
    course = courses.begin(taken)
    course.advance(1)
    return course.failure


def _confirmed(found: Found, chosen: Sequence[Unit]) -> Cause:
    """Train with these ingredients to the end, from two starts."""
    taken = frozenset().union(*chosen)
    first, second = found.search.finish(taken), found.search.finish(taken, seed=1)
    found.again.append(second)
    is_confirmed = found.search.is_there(second)
    return Cause(tuple(sorted(taken)), first.value, first.skill, second.value, is_confirmed=is_confirmed)


def _rank(courses: Courses, found: Found, other: Cause) -> None:
    """Order two causes: what holds from two starts, comes clearly further, or is more than another random draw."""
    clearly = LEAST_GAP + min(found.causes[0].skill, other.skill)

    def weight(cause: Cause) -> tuple[bool, ...]:
        is_other_draw = courses.is_other_draw and cause.names == (WEIGHTS,)
        return cause.is_confirmed, cause.skill > clearly, not is_other_draw

    first, second = sorted((found.causes[0], other), key=weight, reverse=True)
    found.causes = [first]
    if second.is_confirmed or not first.is_confirmed:
        found.also = [second]
    else:
        found.notes.append(f"{second.text} of `good` rescues it as well, but from one of two random starts only.")


def _one_by_one(found: Found, cause: Cause, chosen: Sequence[Unit], everything: Taken) -> Cause:
    """Say what each of several ingredients does alone, and whether each breaks `good` by itself."""
    search = found.search
    courses = {unit: search.finish(unit) for unit in chosen[:MOST_ALONE]}
    order = sorted(courses, key=lambda unit: -courses[unit].skill)
    names = [name for unit in order for name in sorted(unit)]
    names += [name for name in cause.names if name not in names]
    separate = all(not search.learns(everything - unit) for unit in chosen[:MOST_ALONE])
    alone = tuple((", ".join(sorted(unit)), courses[unit].value) for unit in order)
    return replace(cause, names=tuple(names), alone=alone, are_separate=separate)


def _second(courses: Courses, gate: Gate, found: Found, rest: Sequence[Unit], base: Taken) -> Cause | None:
    """Search for what else keeps `bad` from what `good` reaches, with the first cause exchanged."""
    first, best = found.causes[0].skill, gate.good.skill
    search = replace(found.search, goal=first + HALF * (best - first), floor=first)
    if not search.learns(base.union(*rest)):
        return None
    chosen = search.minimal(rest, base)
    taken = base.union(*chosen)
    course = search.finish(taken)
    return Cause(tuple(sorted(taken - base)), course.value, course.skill) if search.is_there(course) else None


def _parts(courses: Courses, found: Found, cause: Cause) -> tuple[Ingredient, ...]:
    """Return the pieces of a large ingredient that suffice, such as one child module of the architecture."""
    for name in cause.names:
        rows = parts_between(courses.good, courses.bad, name)
        base = frozenset(cause.names) - {name}
        if not rows or not found.search.learns(base.union(row.name for row in rows)):
            continue
        units = found.search.minimal([frozenset([row.name]) for row in rows], base)
        wanted = frozenset().union(*units)
        return tuple(row for row in rows if row.name in wanted)
    return ()
