"""Find the root cause: if several alarms remain, fix each alone on a copy and test which others disappear.

The experiment is a counterfactual: the first remedy of one suspect is made to a copy, and the checks that found the
other alarms are asked again. It runs only where it is needed, within a bounded time, and changes nothing of the user's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from nbdebug.core.finding import Finding
from nbdebug.core.journal import Event
from nbdebug.engine.ranking import ranked
from nbdebug.engine.root_cause.planning import Experiment, planned, seconds_for
from nbdebug.engine.root_cause.rivals import (
    MOST_RIVALS,
    Rival,
    Trial,
    outcomes_in,
    rivals_in,
    told,
    verdict,
    worth_asking,
)
from nbdebug.engine.session import Session
from nbdebug.errors import Cancelled, NbdebugError, NotApplicable, OutOfTime
from nbdebug.evidence.learning_gate import ACHIEVABLE
from nbdebug.evidence.overfit_one_batch import Overfit
from nbdebug.report.progress import Shown, progress_line
from nbdebug.sandbox import interrupts_held
from nbdebug.setup import Setup

__all__ = ["Experiment", "Trial", "arbitrate", "planned", "tell_apart"]

Listener = Callable[[Event], None]


def arbitrate(session: Session, order: Sequence[str], *, shown: Shown = True) -> list[Trial]:
    """Find out which of several unexplained alarms is the cause, and write it into the journal.

    `order` are all checks in the order of the tree. Nothing is tried where one cause is left, where no alarm says how
    the training came out, or where none of the suspects can be fixed on a copy.
    """
    findings = ranked(session.journal.findings, order)
    outcomes = outcomes_in(findings)
    rivals = rivals_in(findings)[:MOST_RIVALS]
    able = [rival for rival in rivals if rival.remedies]
    if not outcomes or not able:
        return []
    trials: list[Trial] = []
    started = time.perf_counter()
    try:
        with (
            interrupts_held(session.control),
            progress_line("finding the root cause", shown=shown, control=session.control) as listen,
        ):
            bench = _Bench(session, findings, outcomes, order, listen)
            for rival in sorted(able, key=bench.cost):  # the cheapest tell most where the time is short
                trials += bench.fix([rival])
            if len(trials) > 1 and not any(set(trial.gone) & set(outcomes) for trial in trials):
                trials += bench.fix(able)
    except OutOfTime:
        known = f"{len(trials)} of {len(able)} fixes were tried alone"
        session.journal.note(f"Finding the root cause was ended by the time limit: {known}.")
    except (Cancelled, KeyboardInterrupt):
        if session.control.insisted.is_set():
            raise
    finally:
        session.control.reset()
        session.timings["finding the root cause"] = time.perf_counter() - started
    _write(session, trials, outcomes)
    return trials


def tell_apart(session: Session, experiment: Experiment, order: Sequence[str], listen: Listener) -> str:
    """Make one experiment, write what was seen into the journal, and say it.

    Unlike `arbitrate` it raises `Cancelled`, with nothing written, so that whoever gave way can begin again.
    """
    findings = ranked(session.journal.findings, order)
    outcomes = outcomes_in(findings)
    rivals = [rival for rival in rivals_in(findings) if rival.check == experiment.fix]
    try:
        trials = _Bench(session, findings, outcomes, order, listen).fix(rivals)
    except OutOfTime:
        trials = []
    if not trials:
        _write_untold(session, experiment.fix)
        return f"{experiment.fix} could not be fixed on a copy with a conclusive result"
    _write(session, trials, outcomes)
    return verdict(trials, outcomes)


class _Bench:
    """Where suspects are fixed on copies, and the checks of the other alarms are asked again."""

    def __init__(
        self,
        session: Session,
        findings: Sequence[Finding],
        outcomes: Sequence[str],
        order: Sequence[str],
        listen: Listener,
    ) -> None:
        self.session, self.outcomes, self.order, self.listen = session, outcomes, list(order), listen
        self.causes = [rival.check for rival in rivals_in(findings)]

    def cost(self, rival: Rival) -> float:
        """Return the seconds that curing this one alone, and asking the others again, is going to take."""
        return seconds_for(
            self.session, (rival.check, *worth_asking([rival.check], self.outcomes, self.causes, self.order))
        )

    def fix(self, rivals: Sequence[Rival]) -> list[Trial]:
        """Fix only these; empty if that fails, or if no other check could be rerun."""
        try:
            setup = self.session.setup
            for rival in rivals:
                for remedy in rival.remedies:
                    setup = remedy.apply(setup)
            return [self._asked(setup, [rival.check for rival in rivals])]
        except (OutOfTime, Cancelled):
            raise
        except NbdebugError:  # such a patch does not fit here
            return []

    def _asked(self, setup: Setup, fixed: Sequence[str]) -> Trial:
        patched = Session(
            setup,
            control=self.session.control.shared(),  # an inner session would take the reins' progress for itself
            thresholds=self.session.thresholds,
            known=self.session.registry,
            seed=self.session.seed,
        )
        patched.journal.subscribe(self.listen)
        for check in fixed:
            if any(f.is_alarm for f in patched.run_check(check).findings):
                raise NotApplicable(f"the fix does not remove {check} itself, so the test is not conclusive")
        gone, stayed = [], []
        learns, loss = self._yardstick(patched)
        for check in worth_asking(fixed, self.outcomes, self.causes, self.order):
            self.session.control.poll()
            result = patched.run_check(check)
            if any(f.is_alarm for f in result.findings) or (check in self.outcomes and not learns):
                stayed.append(check)
            elif result.status in ("clean", "found"):
                gone.append(check)
        if not gone and not stayed:
            raise NotApplicable("no other check could be rerun")
        return Trial(tuple(fixed), tuple(gone), tuple(stayed), loss)

    def _yardstick(self, patched: Session) -> tuple[bool, float | None]:
        """Return whether one batch is learned now, and to which loss: an alarm that only falls silent is not fixed."""
        try:
            curve = patched.gather(Overfit).curve
        except NotApplicable:
            return True, None
        predicts = curve.fit is None or curve.fit.above_chance >= ACHIEVABLE  # a loss that was huge falls to chance
        return curve.learned and predicts, curve.last


def _write_untold(session: Session, check: str) -> None:
    """Keep that it was tried in vain, so that it is not offered again."""
    for result in session.journal.results:
        if result.check == check:
            seen = "It could not be fixed alone."
            kept = [replace(f, evidence={**f.evidence, "told apart": seen}, told_apart=seen) for f in result.findings]
            session.journal.write(result.with_findings(tuple(kept)))


def _write(session: Session, trials: Sequence[Trial], outcomes: Sequence[str]) -> None:
    if not trials:
        return
    session.journal.note(verdict(trials, outcomes))
    for result in session.journal.results:
        if any(trial.fixed == (result.check,) for trial in trials):
            session.journal.write(result.with_findings(tuple(told(result.findings, trials, outcomes))))
