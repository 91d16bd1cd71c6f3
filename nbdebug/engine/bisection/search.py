"""Delta debugging over the differences: the fewest ingredients of `good` with which `bad` learns.

Halves are exchanged first, then smaller parts (ddmin of Zeller and Hildebrandt). What is tried at the same time races:
the first that gets half of the way from `bad` to `good` ends it, and what is not ahead after a third of the steps
waits, and goes on only where none of the others made it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from nbdebug.engine.bisection.course import Course, Courses
from nbdebug.engine.bisection.mixing import Taken

__all__ = ["Search", "Unit"]

Unit = frozenset[str]  # ingredients that only fit together
HEAT = 0.35  # of the steps, as in the differential diagnosis
AHEAD = 0.03  # of skill
LOOKS = 8  # measurements on the way to the end
AT_ONCE = 4  # copies in training at the same time
SINGLES = 3  # so few differences are tried one by one at once


@dataclass
class Search:
    """Tries mixtures of two set-ups and remembers what came of them."""

    courses: Courses
    steps: int
    goal: float  # the skill that counts as learning
    floor: float  # the skill of `bad`
    tell: Callable[[str], None] = lambda text: None
    tried: dict[Taken, Course] = field(default_factory=dict)

    def learns(self, taken: Iterable[str]) -> bool:
        """Whether `bad` learns with these ingredients of `good`."""
        return self.race([frozenset(taken)]) is not None

    def minimal(self, units: Sequence[Unit], base: Taken = frozenset()) -> list[Unit]:
        """Return the fewest of these units that make `bad` learn, given that all of them together do."""
        left, parts = list(units), min(2, len(units)) if len(units) > SINGLES else len(units)
        while len(left) > 1:
            chunks = _split(left, parts)
            found = self._first(chunks, base)
            if found is not None:
                left, parts = found, 2 if len(found) > SINGLES else len(found)
                continue
            rests = [[unit for unit in left if unit not in chunk] for chunk in chunks] if parts > 2 else []
            found = self._first(rests, base)
            if found is not None:
                left, parts = found, max(parts - 1, 2)
            elif parts >= len(left):
                break
            else:
                parts = min(2 * parts, len(left))
        return left

    def _first(self, choices: Sequence[list[Unit]], base: Taken) -> list[Unit] | None:
        """Return the first of several choices with which `bad` learns."""
        by_taken = {base.union(*choice): choice for choice in choices if choice}
        winner = self.race(list(by_taken))
        return by_taken[winner] if winner is not None else None

    def race(self, mixtures: Sequence[Taken]) -> Taken | None:
        """Train these mixtures against each other and return the one that learns; None where none does."""
        known = [taken for taken in mixtures if taken in self.tried and self.is_there(self.tried[taken])]
        if known:
            return known[0]
        waiting: list[Course] = []
        for start in range(0, len(mixtures), AT_ONCE):
            courses = [self._course(taken) for taken in mixtures[start : start + AT_ONCE]]
            winner = self._run(courses, int(HEAT * self.steps))
            winner = winner or self._run([c for c in courses if self._is_ahead(c)], self.steps)
            if winner is not None:
                return winner.taken
            waiting += courses
        late = self._run([course for course in waiting if course.is_alive], self.steps)
        for course in waiting:
            course.release()
        return late.taken if late is not None else None

    def is_there(self, course: Course) -> bool:
        """Whether this course has learned."""
        return course.is_alive and course.skill >= self.goal

    def _is_ahead(self, course: Course) -> bool:
        return course.is_alive and course.skill >= self.floor + AHEAD

    def _run(self, courses: Sequence[Course], steps: int) -> Course | None:
        """Let these courses take turns until one has learned, or all have taken so many steps."""
        while running := [c for c in courses if c.is_alive and c.steps < steps and c.training is not None]:
            for course in running:
                self.tell(f"trying good's {named(course.taken)}")
                course.advance(min(max(1, self.steps // LOOKS), steps - course.steps))
            there = [course for course in courses if self.is_there(course)]
            if there:
                return max(there, key=lambda course: course.skill)
        there = [course for course in courses if self.is_there(course)]
        return max(there, key=lambda course: course.skill) if there else None

    def _course(self, taken: Taken) -> Course:
        if taken not in self.tried:
            self.tried[taken] = self.courses.begin(taken)
        return self.tried[taken]

    def finish(self, taken: Taken, seed: int = 0) -> Course:
        """Train a mixture to the end from this start, and return its course."""
        course = self.tried.get(taken) if not seed else None
        if course is None or (course.training is None and course.steps < self.steps):
            course = self.courses.begin(taken, seed)
        while course.is_alive and course.steps < self.steps:
            self.tell(f"confirming good's {named(taken)}")
            course.advance(min(max(1, self.steps // LOOKS), self.steps - course.steps))
        if not seed:
            self.tried[taken] = course
        return course


def named(taken: Iterable[str], most: int = 3) -> str:
    """Return ingredients as words: a, b and c."""
    names = sorted(taken)
    if not names:
        return "nothing"
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def _split(units: Sequence[Unit], parts: int) -> list[list[Unit]]:
    edges = [round(index * len(units) / parts) for index in range(parts + 1)]
    return [list(units[a:b]) for a, b in pairwise(edges) if b > a]
