"""What the wizard's buttons start: checks without a result, fixes, skips; and what a change makes out of date."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from nbdebug.core.finding import Finding, Result
from nbdebug.engine.budgeting import in_budget_order
from nbdebug.engine.decision_tree import checks_for
from nbdebug.engine.session import Session
from nbdebug.widgets.explore import Explored
from nbdebug.widgets.layout import Face
from nbdebug.widgets.noticing import Noticing
from nbdebug.widgets.pane import Pane
from nbdebug.widgets.runner import Conclude, Runner, Trial
from nbdebug.widgets.telling import Telling

__all__ = ["Tasks"]

CHANGED = "Your model was changed or trained since it was measured: {} results are out of date."


class Tasks:
    """Puts jobs into the queue, so that nothing runs twice, and knows which results are out of date.

    `redraw` draws the map anew, and `to_result` shows the result of the whole run.
    """

    def __init__(self, face: Face, redraw: Callable[[], None], stale: set[str], passed: set[str]) -> None:
        self.face, self._redraw, self._stale, self._passed = face, redraw, stale, passed
        self.telling = Telling(face)
        self.session: Session
        self.pane: Pane
        self.runner: Runner
        self.explored: Explored
        face.on_click(face.run_step, lambda: self.start(self.pane.jobs))
        face.on_click(face.run_rest, lambda: self.start(self.left(self.pane.rest_of_stage)))
        face.on_click(face.stop, self._cancel)
        face.on_click(face.apart, lambda: self.start(self.pane.experiments()))

    def follow(self, session: Session, pane: Pane, runner: Runner, explored: Explored) -> None:
        """Work on another session from here on."""
        self.session, self.pane, self.runner, self.explored = session, pane, runner, explored
        self._noticing = Noticing(session)

    def every_check(self) -> list[str]:
        """Return every check in the order for the symptom."""
        return checks_for(self.session.journal.symptom, self.session.registry)

    def left(self, checks: Iterable[str]) -> list[str]:
        """Return those of some checks that have no result on the model as it is now, so that nothing runs twice."""
        self.notice()
        known = {r.check for r in self.session.journal.results if not r.is_undone} - self._stale
        return [check for check in checks if check not in known]

    def run_all(self, to_result: Callable[[], None], *, is_limited: bool) -> None:
        """Run every check that has no result yet; whoever opens a step meanwhile stays there."""
        left = self.left(self.every_check())
        if not left:
            to_result()
            self.face.say("Nothing has changed since: every check has its result.")
            return
        self.pane.running = True
        to_result()
        self.start([*(in_budget_order(left, self.session.registry) if is_limited else left), Conclude()])

    def start(self, jobs: Sequence[Any]) -> None:
        """Put jobs into the queue; what runs by steps ends with the fixes as diffs."""
        if not jobs:
            return
        self.notice()
        checks = [job for job in jobs if isinstance(job, str)]
        self.face.busy("starting")
        self.pane.running = bool(checks)  # and not a fix that is tried
        self.telling.begin(len(checks))
        self._stale.difference_update(checks)
        is_steps = checks and not any(isinstance(job, Conclude) for job in jobs)
        self.runner.start([*jobs, Conclude(judges=False)] if is_steps else jobs)

    def try_fix(self, finding: Finding, number: int) -> None:
        """Try one of a finding's fixes on a copy."""
        self.start([Trial(finding.check, finding.where, number, finding)])

    def notice(self) -> None:
        """See whether the model is still the one that was measured, and say so if it is not."""
        if self.runner.is_busy:
            return
        stale = self._noticing.stale()
        if stale:
            self._stale.update(stale)
            self.face.explore([])
            self.explored.close()
            self._redraw()
            self.face.say(CHANGED.format(len(stale)))

    def change_threshold(self, check: str, name: str, value: Any) -> None:
        """Let a check judge by another number; its result is out of date."""
        self.session.set_thresholds(check, **{name: value})
        self._stale.update({check} & {result.check for result in self.session.journal.results})
        self._redraw()
        self.face.say(f"{name} of {check} is {value:g} from now on; run the step again")

    def skip(self) -> None:
        """Mark the checks of the step that is shown as skipped by the user."""
        known = {result.check for result in self.session.journal.results}
        for check in self.pane.checks:
            if check not in known or check in self._stale:
                self.session.journal.write(Result(check, "skipped", reason="you skipped it", left_out="user"))
        self._stale.difference_update(self.pane.checks)
        if not self.pane.checks:
            self._passed.add(self.pane.step)
        self._redraw()

    def _cancel(self) -> None:
        self.face.say("stopping")
        self.runner.cancel()
