"""Bisect two set-ups: which ingredient of the one that learns makes the other one learn?"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

from nbdebug.core.control import Control
from nbdebug.core.journal import Event
from nbdebug.core.options import check_time_limit
from nbdebug.engine.bisection.course import LOSS, TRAINING_LOSS, Course, Courses, Metric
from nbdebug.engine.bisection.differences import Differences, differences_between
from nbdebug.engine.bisection.finding_causes import Found, find_causes
from nbdebug.engine.bisection.gate import Gate, gate
from nbdebug.engine.bisection.given import Given, given
from nbdebug.engine.bisection.mixing import EVERYTHING
from nbdebug.engine.bisection.result import Bisection, Tried
from nbdebug.engine.bisection.search import Search
from nbdebug.engine.bisection.words import sentence
from nbdebug.errors import BadInput, Cancelled, OutOfTime, plainly
from nbdebug.report.progress import progress_line
from nbdebug.sandbox import guarded
from nbdebug.sandbox.state_snapshot import StateSnapshot

__all__ = ["bisect"]

TYPICAL = 14  # trainings: what the progress counts on, because it is unknown how many it takes


@plainly
def bisect(
    good: Any,
    bad: Any,
    *,
    metric: Metric | None = None,
    steps: int | None = None,
    time_limit: float | None = None,
    progress: bool = True,
    control: Control | None = None,
) -> Bisection:
    """Find what makes `bad` fail, where `good` learns: exchange what differs, on copies, until `bad` learns.

    Both are a dict of the arguments of `diagnose`, an object with such attributes, a function that returns one of
    these, or its name as "package.module:function". `metric(model, batches)` gives a number, higher is better, for
    programs whose outputs and targets match no usual metric. `steps` sets the steps of each training, `time_limit` the
    seconds of all of them; without it, the search goes to its end. Ctrl-C ends it and returns what is known by then.

    Args:
        good: A set-up that learns: a dict of the arguments of `nbdebug.diagnose`, an object with such attributes, a
            function that returns one of these, or its name as "package.module:function".
        bad: A set-up that does not learn.
        metric: `metric(model, batches)`, higher is better, for programs whose outputs and targets match no usual
            metric.
        steps: The steps of each training.
        time_limit: The limit of the whole search in seconds; none by default.
        progress: Whether a progress bar is shown.
        control: The controller that stops the search from outside.
    """
    check_time_limit(time_limit)
    _checked_steps(steps)
    control = control or Control(time_limit=time_limit)
    sides = given(good, "good", control), given(bad, "bad", control)
    live = (*sides[0].live_parts, *sides[1].live_parts)
    run = _Run(sides[0], sides[1], control, metric, steps)
    with progress_line("bisecting", shown=progress, control=control) as listen:
        before = control.on_progress
        control.on_progress = before or (lambda fraction, text: listen(Event("progress", "bisect", fraction, text)))
        try:
            guarded(run.all, live, control, snapshot=StateSnapshot(*live))
        except KeyboardInterrupt:
            if control.insisted.is_set():
                raise
            run.stopped = "interrupted"
        except (Cancelled, OutOfTime) as stop:
            run.stopped = str(stop)
        finally:
            control.on_progress = before
            control.reset()
    return run.result()


def _checked_steps(steps: Any) -> None:
    if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int) or steps < 8):
        raise BadInput(
            f"it is {steps!r}",
            where="steps",
            expected="a whole number of training steps, at least 8, or None",
            do="write steps=200, or omit it: good's own training says how many it takes",
        )


class _Run:
    """One bisection: what is known of it at any moment."""

    def __init__(self, good: Given, bad: Given, control: Control, metric: Metric | None, steps: int | None) -> None:
        self.good, self.bad, self.control, self.metric, self.steps = good, bad, control, metric, steps
        self.begun = time.perf_counter()
        self.differences = Differences(())
        self.courses: Courses | None = None
        self.gate: Gate | None = None
        self.found: Found | None = None
        self.stopped = ""
        self.text = ""

    def all(self) -> None:
        """Compare, train both, and search for the cause where there is one to be found."""
        self.differences = differences_between(self.good, self.bad)
        self.courses = Courses(self.good, self.bad, self.control, self.metric)
        self.courses.has_schedule = any(row.name == "scheduler" for row in self.differences.rows)
        self.courses.tell = self._tell_step
        self.gate = gate(self.courses, self.steps, self._say)
        self._refuse_other_losses(self.gate)
        if self.gate.outcome != "fails" or not self.differences.exchanged:
            return
        search = Search(self.courses, self.gate.steps, self.gate.goal, self.gate.low, self._say)
        self.found = Found(search)
        find_causes(self.courses, self.gate, self.differences, self.found, self._say)

    def _refuse_other_losses(self, gate: Gate) -> None:
        """Say that losses of two kinds cannot be compared, where there is nothing else to compare by."""
        about = {
            LOSS: ("loss function", "compute_loss"),
            TRAINING_LOSS: ("loss function", "compute_loss", "train_step"),
        }
        other = [row.name for row in self.differences.rows if row.name in about.get(gate.good.measure, ())]
        if other and gate.outcome != "not measured":
            gate.outcome = "not measured"
            gate.reason = (
                f"no metric fits the outputs and targets, and {other[0]} differs, so that losses cannot be compared; "
                "pass metric=…, a function of the model and the held-out batches"
            )

    def _say(self, text: str) -> None:
        self.text = text
        self._tell_step()

    def _tell_step(self) -> None:
        assert self.courses is not None
        each = self.gate.steps if self.gate is not None and self.gate.steps else 240
        done = self.courses.steps / (TYPICAL * each)
        left = max(0.0, (time.perf_counter() - self.begun) * (1 - done) / done) if 0.05 < done < 1 else math.nan
        more = f", about {left:.0f} s left" if not math.isnan(left) and not self.control.has_budget else ""
        self.control.progress(1 - math.exp(-2 * done), f"{self.text}{more}")

    def result(self) -> Bisection:
        """Return what is known."""
        found, gate = self.found, self.gate
        result = Bisection(
            outcome=self._outcome(),
            says="",
            measure=gate.good.measure if gate is not None else "",
            differences=self.differences,
            causes=tuple(found.causes) if found is not None else (),
            also=tuple(found.also) if found is not None else (),
            second=found.second if found is not None else None,
            good_value=gate.good.value if gate is not None else math.nan,
            bad_value=gate.bad.value if gate is not None else math.nan,
            tried=tuple(self._tried()),
            notes=(*(found.notes if found is not None else ()), *self._reasons()),
            steps=gate.steps if gate is not None else 0,
            training_steps=self.courses.steps if self.courses is not None else 0,
            seconds=round(time.perf_counter() - self.begun, 2),
            stopped=self.stopped,
            names=tuple(sorted(set().union(*found.among))) if found is not None else (),
        )
        return replace(result, says=sentence(result))

    def _outcome(self) -> str:
        if self.found is not None and self.found.causes:
            return "explained"
        if self.stopped:
            return "stopped"
        if self.gate is not None and self.gate.outcome != "fails":
            return self.gate.outcome
        return "not explained" if self.differences.exchanged else "nothing differs"

    def _reasons(self) -> list[str]:
        return [self.gate.reason] if self.gate is not None and self.gate.reason else []

    def _tried(self) -> list[Tried]:
        if self.gate is None:
            return []
        own = [self.gate.good, self.gate.bad, *self.gate.others]
        more = [*self.found.search.tried.values(), *self.found.again] if self.found is not None else []
        return [_tried(course) for course in (*own, *more)]


def _tried(course: Course) -> Tried:
    names = ("*",) if course.taken == EVERYTHING else tuple(sorted(course.taken))
    curve = tuple((point.step, point.value) for point in course.points if not math.isnan(point.value))
    return Tried(names, course.seed, course.steps, course.value, course.failure, curve)
