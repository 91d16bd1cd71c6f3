"""Try remedies on copies: the failed check again, and a short training of the patched copy against the other.

A remedy is verified if the patched copy is better in two runs with different seeds, each time by more than the noise,
and the check no longer raises the finding in either.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from nbdebug.charts import Lines
from nbdebug.core.control import Control, limit_for
from nbdebug.core.finding import Finding
from nbdebug.core.journal import Event
from nbdebug.core.remedy import Remedy
from nbdebug.core.verification import Contest, Verification
from nbdebug.engine.session import Session
from nbdebug.errors import BadInput, Cancelled, NotApplicable, OutOfTime, plainly
from nbdebug.evidence.training_run import Practice
from nbdebug.fixes import Judged, spec_of
from nbdebug.fixes.verification.judging import Comparison, comparisons
from nbdebug.fixes.verification.words import said
from nbdebug.report.progress import Shown, progress_line
from nbdebug.sandbox import interrupts_held
from nbdebug.setup import Setup

__all__ = ["verify", "verify_finding"]

RUNS = 2  # seeds; each has to agree
INTERRUPTED = "interrupted"


@plainly
def verify(
    finding: Finding,
    model: Any,
    loader: Any,
    loss_fn: Callable[..., Any] | None = None,
    optimizer: Any = None,
    *,
    remedy: int | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    progress: Shown = True,
    **more: Any,
) -> Verification:
    """Try the remedies of a finding that was read from a file on a copy of this model.

    `more` are further arguments of `diagnose` that describe what is examined, such as `train_step`.

    Args:
        finding: A finding of a report, for example one read from a file.
        model: Your model.
        loader: The DataLoader, or any iterable of batches.
        loss_fn: Your loss; without one it is inferred.
        optimizer: Your optimizer; Adam by default.
        remedy: The number of the remedy to try, from 0; by default all that can be tried.
        seed: The seed of the experiments.
        time_limit: The limit in seconds; none by default.
        progress: Whether a progress bar is shown.
        **more: Further arguments of `nbdebug.diagnose` that describe what is examined, such as `train_step`.
    """
    session = Session(Setup(model, loader, loss_fn, optimizer, **more), seed=seed)
    return _verified(finding, session, remedy, None, time_limit, progress)


@plainly
def verify_finding(
    finding: Finding,
    remedy: int | None,
    *,
    control: Control | None,
    time_limit: float | None,
    progress: Shown,
) -> Verification:
    """Try the remedies of a finding on what its session examined."""
    if finding.session is None or not finding.session.has_model:
        raise BadInput(
            "this finding was read from a file, a copy or a recording, so its model is unknown",
            where="finding.verify",
            expected="a finding of a report that nbdebug.diagnose returned in this session",
            do="call nbdebug.verify(finding, model, loader, …)",
        )
    return _verified(finding, finding.session, remedy, control, time_limit, progress)


def _verified(
    finding: Finding,
    session: Session,
    number: int | None,
    control: Control | None,
    time_limit: float | None,
    progress: Shown,
) -> Verification:
    """Try one remedy, or all in their order until one verifies; the best that came of it is given."""
    chosen = _chosen(finding, number)
    control = control or Control(time_limit=limit_for("normal", time_limit))
    plain: dict[int, Practice | str] = {}
    tried: list[Verification] = []
    for remedy in chosen:
        trial = _Trial(finding, session, remedy, control, plain, progress)
        tried.append(trial.run())
        finding.verifications[:] = [v for v in finding.verifications if v.remedy != remedy] + [tried[-1]]
        if tried[-1].verified or trial.is_interrupted:
            break
    return min(tried, key=lambda one: ("verified", "did not help", "not tried").index(one.verdict))


def _chosen(finding: Finding, number: int | None) -> list[Remedy]:
    if number is None:
        able = [remedy for remedy in finding.remedies if remedy.verifiable]
        return able or [finding.remedies[0] if finding.remedies else Remedy("")]
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(finding.remedies):
        raise BadInput(
            f"the fix is {number!r}",
            where="finding.verify",
            expected=f"a whole number below {len(finding.remedies)}, the number of its fixes",
            do="omit the number to try them one after the other",
        )
    return [finding.remedies[number]]


class _Trial:
    """One remedy of one finding: the sessions that it is tried in, and what came of them."""

    def __init__(
        self,
        finding: Finding,
        session: Session,
        remedy: Remedy,
        control: Control,
        plain: dict[int, Practice | str],
        shown: bool | Callable[[Event], None],
    ) -> None:
        self.finding, self.session, self.remedy, self.control = finding, session, remedy, control
        self.plain, self.shown = plain, shown  # trainings of the copy as it is serve every remedy
        self.curves: list[tuple[str, tuple[float, ...]]] = []
        self.again: list[tuple[str, tuple[float, ...]]] = []  # with the second seed
        self.listen: Callable[[Event], None] = lambda event: None
        self.is_interrupted = False

    def run(self) -> Verification:
        """Try it; whatever keeps it from being tried becomes the reason."""
        started = time.perf_counter()
        contests: tuple[Contest, ...] = ()
        try:
            judged_by = spec_of(self.remedy).judged_by
            with interrupts_held(self.control), progress_line(self.remedy.says, shown=self.shown) as self.listen:
                contests = self._contests(judged_by)
            verdict, says = said(self.finding, contests, judged_by, RUNS)
        except (NotApplicable, OutOfTime, Cancelled) as why:
            verdict, says = "not tried", str(why)
        except KeyboardInterrupt:
            if self.control.insisted.is_set():
                raise
            self.is_interrupted, verdict, says = True, "not tried", INTERRUPTED
        finally:
            self.control.reset()
        title = "Short training of both copies" + ", two seeds" * bool(self.again)
        repeats = len(self.again)
        picture = Lines.of_losses([*self.curves, *self.again], title, repeats=repeats) if self.curves else None
        return Verification(self.remedy, verdict, says, contests, picture, round(time.perf_counter() - started, 3))

    def _contests(self, judged_by: Judged) -> tuple[Contest, ...]:
        """Run with one seed after the other while the remedy may still be verified, by one and the same measure."""
        rounds: list[tuple[int, bool, list[Comparison]]] = []
        for seed in range(self.session.seed, self.session.seed + RUNS):
            patched = self._session(self.remedy.apply(self.session.setup), seed)
            clean = self._is_clean(patched)
            rounds.append((seed, clean, comparisons(*self._trainings(patched, seed), judged_by)))
            if not clean or not _winning(rounds, judged_by):
                break  # the answer is clear
        winning, last = _winning(rounds, judged_by), rounds[-1][2]
        measure = (winning or [one.measure for one in last if one.worse] or [last[0].measure])[0]
        return tuple(_contest(seed, clean, found, measure, judged_by) for seed, clean, found in rounds)

    def _trainings(self, patched: Session, seed: int) -> tuple[Practice | None, Practice]:
        after = patched.measure(Practice)
        if seed not in self.plain:
            try:
                self.plain[seed] = self._session(self.session.setup, seed).measure(Practice)
            except NotApplicable as why:  # it cannot even be trained as it is
                self.plain[seed] = str(why)
        before = self.plain[seed]
        shown = [("as it is", before.losses)] if isinstance(before, Practice) else []
        shown.append(("patched", after.losses))
        if not self.curves:
            self.curves = shown
        elif len(shown) == len(self.curves):
            self.again = shown
        return before if isinstance(before, Practice) else None, after

    def _is_clean(self, patched: Session) -> bool:
        """Whether the check, run again, raises nothing of the same weight and kind at the same place."""
        result = patched.run_check(self.finding.check)
        if result.status == "crashed":
            raise NotApplicable(f"the check could not be rerun: {result.reason}")
        alike = [f for f in result.findings if f.is_alarm or not self.finding.is_alarm]
        return not any(f.where == self.finding.where and set(f.evidence) == set(self.finding.evidence) for f in alike)

    def _session(self, setup: Setup, seed: int) -> Session:
        session = Session(
            setup, control=self.control, thresholds=self.session.thresholds, known=self.session.registry, seed=seed
        )
        session.journal.subscribe(self.listen)
        return session


def _winning(rounds: list[tuple[int, bool, list[Comparison]]], judged_by: Judged) -> list[str]:
    """Name the measures by which the patched copy has won every round, where none says that it became worse."""
    if any(one.worse for _, _, found in rounds for one in found):
        return []
    return [
        first.measure for first in rounds[0][2] if all(_wins(_by(first.measure, f), judged_by) for _, _, f in rounds)
    ]


def _contest(seed: int, clean: bool, found: list[Comparison], measure: str, judged_by: Judged) -> Contest:
    one = _by(measure, found)
    better = _wins(one, judged_by) and not any(other.worse for other in found)
    return Contest(seed, measure, one.before, one.after, better, clean)


def _wins(one: Comparison, judged_by: Judged) -> bool:
    return one.better or (judged_by == "check" and not one.worse)


def _by(measure: str, found: list[Comparison]) -> Comparison:
    """Return the comparison by this measure; where the second run cannot be measured so, that is no win."""
    missing = Comparison(measure, math.nan, math.nan, better=False, worse=False)
    return next((one for one in found if one.measure == measure), missing)
