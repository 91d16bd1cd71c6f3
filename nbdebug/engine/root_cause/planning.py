"""Which experiment tells the causes that are left apart, and what it costs: no experiment yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nbdebug.core.text import listed
from nbdebug.engine.ranking import ranked
from nbdebug.engine.root_cause.rivals import MOST_RIVALS, outcomes_in, rivals_in, worth_asking
from nbdebug.engine.session import Session
from nbdebug.evidence.overfit_one_batch import Overfit

__all__ = ["Experiment", "planned", "seconds_for"]


@dataclass(frozen=True)
class Experiment:
    """Fix one suspect alone on a copy, and rerun the checks for what it may cause."""

    fix: str
    rivals: tuple[str, ...]
    outcomes: tuple[str, ...]
    asks: tuple[str, ...]
    seconds: float

    def __str__(self) -> str:
        """Say what is done."""
        return f"{self.fix}, fixed alone on a copy"

    @property
    def says(self) -> str:
        """Why it is worth making, and what it takes."""
        return (
            f"{listed(self.rivals)} may each be the cause of {listed(self.outcomes)}. The cheapest experiment to "
            f"find the root cause: fix {self.fix} alone on a copy, and rerun {listed(self.asks)} (about "
            f"{max(1.0, self.seconds):.0f} s)."
        )


def planned(session: Session, order: Sequence[str]) -> Experiment | None:
    """Return the cheapest experiment that tells the remaining causes apart; None where nothing is left to tell.

    Its cost is what the experiments behind the same checks took before.
    """
    findings = ranked(session.journal.findings, order)
    outcomes = outcomes_in(findings)
    if not outcomes or any(set(f.cures or ()) & set(outcomes) for f in findings):
        return None
    rivals = rivals_in(findings)[:MOST_RIVALS]
    tried = {finding.check for finding in findings if finding.told_apart}
    causes = [rival.check for rival in rivals]
    plans = []
    for rival in rivals:
        asks = worth_asking([rival.check], outcomes, causes, order)
        if rival.remedies and rival.check not in tried and asks:
            cost = seconds_for(session, (rival.check, *asks))
            plans.append(Experiment(rival.check, tuple(causes), outcomes, tuple(asks), cost))
    return min(plans, key=lambda plan: plan.seconds, default=None)


def seconds_for(session: Session, checks: Iterable[str]) -> float:
    """Return how long everything took that these checks are judged by."""
    kinds: list[type] = [Overfit, *(n.kind for c in checks for n in session.registry.checks[c].needs.values())]
    probes: set[str] = set()
    while kinds:
        probe = session.registry.probes.get(kinds.pop())
        if probe is not None and probe.name not in probes:
            probes.add(probe.name)
            kinds += [need.kind for need in probe.needs.values()]
    return sum(session.timings.get(name, 0.0) for name in probes)
