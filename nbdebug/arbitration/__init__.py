"""Tell causes apart: where several alarms remain that may be one, cure each alone on a copy and see what goes with it.

The experiment is a counterfactual: the first remedy of one suspect is made to a copy, and the checks that found the
other alarms are asked again. It runs only where it is needed, within a bounded time, and changes nothing of the user's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from nbdebug.arbitration.rivals import Rival, Trial, outcomes_in, rivals_in, told, verdict
from nbdebug.errors import Cancelled, NbdebugError, NotApplicable, OutOfTime
from nbdebug.evidence import Overfit
from nbdebug.finding import Finding
from nbdebug.journal import Event
from nbdebug.progress import progress_line
from nbdebug.ranking import ranked
from nbdebug.session import Session
from nbdebug.subject import Subject
from nbdebug.twin import interrupts_held

__all__ = ["Trial", "arbitrate"]

SECONDS = 45.0  # for all trials together; what is known by then counts
MOST_RIVALS = 4


def arbitrate(session: Session, order: Sequence[str], *, shown: bool = True, seconds: float = SECONDS) -> list[Trial]:
    """Find out which of several unexplained alarms is the cause, and write it into the journal.

    `order` are all checks in the order of the tree. Nothing is tried where one cause is left, where no alarm says how
    the training came out, or where none of the suspects can be cured on a copy.
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
            session.control.limit(seconds),
            progress_line("telling causes apart", shown=shown) as listen,
        ):
            bench = _Bench(session, findings, outcomes, order, listen)
            for rival in able:
                trials += bench.cure([rival])
            if len(trials) > 1 and not any(set(trial.gone) & set(outcomes) for trial in trials):
                trials += bench.cure(able)
    except (OutOfTime, Cancelled, KeyboardInterrupt):
        if session.control.insisted.is_set():
            raise
    finally:
        session.control.reset()
        session.timings["telling causes apart"] = time.perf_counter() - started
    _write(session, trials, outcomes)
    return trials


class _Bench:
    """Where suspects are cured on copies, and the checks of the other alarms are asked again."""

    def __init__(
        self,
        session: Session,
        findings: Sequence[Finding],
        outcomes: Sequence[str],
        order: Sequence[str],
        listen: Callable[[Event], None],
    ) -> None:
        self.session, self.outcomes, self.order, self.listen = session, outcomes, list(order), listen
        self.causes = [rival.check for rival in rivals_in(findings)]

    def cure(self, rivals: Sequence[Rival]) -> list[Trial]:
        """Cure these and nothing else; empty where it cannot be done, or where no other alarm could be asked again."""
        try:
            subject = self.session.subject
            for rival in rivals:
                for remedy in rival.remedies:
                    subject = remedy.apply(subject)
            return [self._asked(subject, [rival.check for rival in rivals])]
        except (OutOfTime, Cancelled):
            raise
        except NbdebugError:  # such a patch does not fit here
            return []

    def _asked(self, subject: Subject, cured: Sequence[str]) -> Trial:
        patched = Session(
            subject,
            control=self.session.control,
            thresholds=self.session.thresholds,
            known=self.session.registry,
            seed=self.session.seed,
        )
        patched.journal.subscribe(self.listen)
        for check in cured:
            if any(f.is_alarm for f in patched.run_check(check).findings):
                raise NotApplicable(f"the remedy does not cure {check} itself, so that nothing would follow")
        gone, stayed = [], []
        learns, loss = self._yardstick(patched)
        for check in self._worth_asking(cured):
            self.session.control.poll()
            result = patched.run_check(check)
            if any(f.is_alarm for f in result.findings) or (check in self.outcomes and not learns):
                stayed.append(check)
            elif result.status in ("clean", "found"):
                gone.append(check)
        if not gone and not stayed:
            raise NotApplicable("no other alarm could be asked again")
        return Trial(tuple(cured), tuple(gone), tuple(stayed), loss)

    def _worth_asking(self, cured: Sequence[str]) -> list[str]:
        """Give the alarms that could follow from these: how training comes out, and causes later in the tree."""
        first = min(self._place(check) for check in cured)
        later = [check for check in self.causes if self._place(check) > first]
        return [check for check in dict.fromkeys((*self.outcomes, *later)) if check not in cured]

    def _place(self, check: str) -> int:
        return self.order.index(check) if check in self.order else len(self.order)

    def _yardstick(self, patched: Session) -> tuple[bool, float | None]:
        """Say whether one batch is learned now, and to which loss: an alarm that only falls silent is not cured."""
        try:
            curve = patched.gather(Overfit).curve
        except NotApplicable:
            return True, None
        return curve.learned, curve.last


def _write(session: Session, trials: Sequence[Trial], outcomes: Sequence[str]) -> None:
    if not trials:
        return
    session.journal.note(verdict(trials, outcomes))
    for result in session.journal.results:
        if any(trial.cured == (result.check,) for trial in trials):
            session.journal.write(result.with_findings(tuple(told(result.findings, trials, outcomes))))
