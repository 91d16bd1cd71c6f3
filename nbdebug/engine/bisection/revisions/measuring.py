"""How one revision comes out by itself, in plain numbers that cross from its process: the test of the walk."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

from nbdebug.core.control import Control
from nbdebug.engine.bisection.course import Course, Courses, Metric
from nbdebug.engine.bisection.gate import PATIENCE, has_learned, train, train_good
from nbdebug.engine.bisection.given import Given
from nbdebug.engine.bisection.mixing import EVERYTHING
from nbdebug.sandbox import guarded
from nbdebug.setup.user_code import is_users_class, methods_of

__all__ = ["measured"]

SEEDS = (0, 1)


def measured(side: Given, job: Mapping[str, Any], metric: Metric | None, control: Control) -> dict[str, Any]:
    """Train a revision from two random starts.

    Without a goal in the job this is the good revision, which says how many steps are taken and what counts as learned.
    """
    courses = Courses(side, side, control, metric, has_schedule=side.setup.scheduler is not None)
    courses.ends = tuple(job["ends"]) if job.get("ends") else None
    look = _first if job.get("goal") is None else _against
    found: dict[str, Any] = guarded(lambda: look(courses, job), side.live_parts, control)
    return {**found, "program": _program(side), "training_steps": courses.steps}


def _first(courses: Courses, job: Mapping[str, Any]) -> dict[str, Any]:
    """Train the good revision until it stands still, or another one for as many steps."""

    def tell(text: str) -> None:
        courses.control.progress(0.0, text)

    course = courses.begin(EVERYTHING)
    if course.failure:
        return _told(course, courses, learns=False)
    steps: int | None = job.get("steps")
    if steps is None or courses.ends is None:
        steps = train_good(courses, course, steps, tell)
    else:
        train(course, steps, tell, job["side"])
    return {**_told(course, courses, learns=has_learned(course)), "steps": steps}


def _against(courses: Courses, job: Mapping[str, Any]) -> dict[str, Any]:
    """Train a revision until it reaches the goal, or three times as long, from each start."""
    runs: list[Course] = []
    for seed in SEEDS:
        course = courses.begin(EVERYTHING, seed)
        train(
            course, PATIENCE * job["steps"], lambda text: courses.control.progress(0.0, text), job["name"], job["goal"]
        )
        runs.append(course)
        if course.failure:
            break
    verdicts = [run.is_alive and run.skill >= job["goal"] for run in runs]
    return {**_told(runs[0], courses, learns=all(verdicts)), "agree": len(set(verdicts)) == 1}


def _told(course: Course, courses: Courses, *, learns: bool) -> dict[str, Any]:
    value, skill = course.value, course.skill
    return {
        "learns": learns,
        "value": value if math.isfinite(value) else None,
        "skill": skill,
        "measure": course.measure,
        "failure": course.failure,
        "ends": list(courses.ends) if courses.ends is not None else None,
    }


def _program(side: Given) -> str:
    """Return a digest of the code of the loss and the step: losses are only compared where it is the same."""
    setup, digest = side.setup, hashlib.sha256()
    for part in (setup.loss_fn, setup.compute_loss, setup.train_step):
        kind = type(part)
        functions = [part, *(function for _, function in methods_of(kind))] if is_users_class(kind) else [part]
        digest.update(f"{kind.__qualname__} {part if not callable(part) else ''}".encode())
        for function in functions:
            code = getattr(function, "__code__", None)
            if code is not None:
                consts = [const for const in code.co_consts if not hasattr(const, "co_code")]
                digest.update(code.co_code + repr((code.co_names, consts)).encode())
    return digest.hexdigest()
