"""Before anything is exchanged: `good` has to learn and `bad` must not, by the same metric and from two starts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from nbdebug.engine.bisection.course import LOSS, TRAINING_LOSS, Course, Courses
from nbdebug.engine.bisection.mixing import EVERYTHING

__all__ = ["HALF", "LEAST_GAP", "PATIENCE", "Gate", "Outcome", "gate", "has_learned", "train", "train_good"]

Outcome = Literal["fails", "both learn", "slower", "good fails", "depends on the start", "not measured"]

STEPS, PATIENCE = 240, 3  # as the learning gate
LOOK = 30  # steps between two measurements of good
NEARLY = 0.9  # of where good comes to: from there on it needs no more steps
ROOM = 1.5  # times the steps that good needed
FEWEST = 60
ACHIEVABLE = 0.2  # skill below which nothing was learned
LEAST_GAP = 0.15  # of skill: smaller ones happen between seeds
HALF = 0.5  # of the way from bad to good: that is learning


@dataclass
class Gate:
    """How both come out by themselves: the courses from two starts each, and the steps that the comparison takes."""

    outcome: Outcome
    reason: str
    steps: int
    good: Course
    bad: Course
    others: tuple[Course, ...] = ()
    low: float = 0.0  # the skill of bad after as many steps

    @property
    def goal(self) -> float:
        """The skill that counts as learning: half of the way from bad to good."""
        return self.low + HALF * (self.good.skill - self.low)


def gate(courses: Courses, steps: int | None, tell: Callable[[str], None]) -> Gate:
    """Train both by themselves and say whether there is something to explain."""
    tell("good")
    good = courses.begin(EVERYTHING)
    if good.failure:
        return Gate("not measured", f"`good` cannot be trained ({good.failure})", 0, good, good)
    taken_steps = train_good(courses, good, steps, tell)
    tell("bad")
    bad = courses.begin(frozenset())
    result = Gate("fails", "", taken_steps, good, bad)
    why = _unmeasured(good, bad)
    if why:
        result.outcome, result.reason = "not measured", why
        return result
    if not has_learned(good):
        result.outcome = "good fails"
        return result
    train(bad, taken_steps, tell, "bad")
    if bad.is_alive and bad.skill >= good.skill - LEAST_GAP:
        result.outcome = "both learn"
        return result
    result.low = max(bad.skill, 0.0)
    train(bad, PATIENCE * taken_steps, tell, "bad, three times as long", result.goal)
    if bad.is_alive and bad.skill >= result.goal:
        result.outcome, result.reason = "slower", f"{bad.steps} steps instead of {taken_steps}"
        return result
    return _from_another_start(courses, result, tell)


def _from_another_start(courses: Courses, result: Gate, tell: Callable[[str], None]) -> Gate:
    """Train both from another random start: good has to learn again, bad to fail again."""
    goal = result.goal
    again = courses.begin(EVERYTHING, 1), courses.begin(frozenset(), 1)
    train(again[0], result.steps, tell, "good from another start", goal)
    train(again[1], result.steps, tell, "bad from another start", goal)
    result.others = again
    if again[0].skill < goal:
        result.outcome, result.reason = "depends on the start", "`good` does not learn from another random start"
    elif again[1].is_alive and again[1].skill >= goal:
        result.outcome, result.reason = "depends on the start", "`bad` learns from another random start"
    for course in again:
        course.release()
    return result


def train_good(courses: Courses, good: Course, steps: int | None, tell: Callable[[str], None]) -> int:
    """Train good until it stands still, and return how many steps all courses take."""
    if steps is not None:
        train(good, steps, tell, "good")
    else:
        train(good, STEPS, tell, "good")
        if not _has_skill(good, HALF):
            train(good, PATIENCE * STEPS, tell, "good, three times as long")
    if good.measure in (LOSS, TRAINING_LOSS) or courses.metric is not None:
        _scale(courses, good)
    if steps is not None:
        return steps
    best = good.skill
    needed = next((p.step for p in good.points[1:] if p.skill >= NEARLY * best), good.steps)
    return int(min(max(FEWEST, ROOM * needed), good.steps))


def _scale(courses: Courses, good: Course) -> None:
    """Measure skill between the values that good begins and ends with, where nothing else gives it a scale."""
    known = [p.value for p in good.points if not math.isnan(p.value)]
    if len(known) < 2:
        return
    ends = max(known[1:]) if courses.metric is not None else min(known[1:])
    courses.ends = (known[0], ends)
    good.points = [type(p)(p.step, p.value, courses.skill_of(p.value)) for p in good.points]


def _has_skill(course: Course, least: float) -> bool:
    known = [p.skill for p in course.points[1:] if not math.isnan(p.skill)]
    return not known or max(known) >= least


def has_learned(good: Course) -> bool:
    """Whether good is better than a constant prediction; by a loss or the user's metric, better than at its start."""
    if not good.is_alive or good.skill < ACHIEVABLE:
        return False
    if good.measure in (LOSS, TRAINING_LOSS):
        first, best = good.points[0].value, min(p.value for p in good.points[1:])
        first = first if not math.isnan(first) else good.losses[0]
        return best < first - 0.1 * abs(first)
    return good.measure != "your metric" or max(p.value for p in good.points[1:]) > good.points[0].value


def _unmeasured(good: Course, bad: Course) -> str:
    """Say why the two cannot be compared by the same metric; empty where they can."""
    if bad.measure != good.measure:
        bad.advance(1)
    if bad.failure:
        return ""
    if (good.measure in (LOSS, TRAINING_LOSS)) != (bad.measure in (LOSS, TRAINING_LOSS)):
        return f"`good` is measured by {good.measure}, `bad` by {bad.measure}"
    return ""


def train(course: Course, steps: int, tell: Callable[[str], None], what: str, goal: float = math.inf) -> None:
    """Train to so many steps, or until the goal is reached."""
    while course.is_alive and course.steps < steps and not course.skill >= goal:
        tell(what)
        course.advance(min(LOOK, steps - course.steps))
