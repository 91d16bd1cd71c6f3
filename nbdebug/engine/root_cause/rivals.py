"""Which alarms may be one cause, what came of solving each of them alone, and what that says: no experiment yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from nbdebug.core.finding import Finding
from nbdebug.core.remedy import Remedy
from nbdebug.core.text import listed
from nbdebug.engine.ranking import folded

__all__ = [
    "MOST_RIVALS",
    "OUTCOMES",
    "Rival",
    "Trial",
    "outcomes_in",
    "rivals_in",
    "told",
    "verdict",
    "worth_asking",
]

# How a training comes out: any of the other problems may be behind these, whether or not it says so.
OUTCOMES = (
    "cannot-overfit-batch",
    "learning-rate-too-high",
    "learning-rate-too-low",
    "worse-than-baseline",
    "model-ignores-inputs",
    "loss-metric-disagree",
)
MOST_RIVALS = 4
MOST_PLACES = 5  # patches of one check, one for each place


@dataclass(frozen=True)
class Rival:
    """An alarm that no other one explains, and the remedies that fix it on a copy."""

    check: str
    remedies: tuple[Remedy, ...]


@dataclass(frozen=True)
class Trial:
    """What came of solving these suspects and nothing else: the alarms that went, those that stayed, and the loss."""

    fixed: tuple[str, ...]
    gone: tuple[str, ...]
    stayed: tuple[str, ...]
    loss: float | None = None

    def __str__(self) -> str:
        """Return one part of a sentence."""
        names = " and ".join(self.fixed)
        parts = [f"{listed(self.gone)} {'disappears' if len(self.gone) == 1 else 'disappear'}"] if self.gone else []
        parts += [f"{listed(self.stayed)} {'remains' if len(self.stayed) == 1 else 'remain'}"] if self.stayed else []
        loss = f" (the loss on one batch ends at {self.loss:.3g})" if self.loss is not None else ""
        return f"with {names}{' alone' if len(self.fixed) == 1 else ''} fixed, {' and '.join(parts)}{loss}"


def outcomes_in(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Return the alarms that say how the training came out."""
    found = {finding.check for finding in findings if finding.is_alarm}
    return tuple(check for check in OUTCOMES if check in found)


def rivals_in(ranked: Sequence[Finding]) -> list[Rival]:
    """Return the alarms that no other one explains, in their order; none where there is only one."""
    causes = list(dict.fromkeys(cause.check for cause, _ in folded(ranked) if cause.is_alarm))
    rivals = []
    for check in causes:
        able = [next((r for r in f.remedies if r.verifiable), None) for f in ranked if f.check == check and f.is_alarm]
        different: list[Remedy] = []
        for remedy in able:
            if remedy is not None and remedy.patch not in [other.patch for other in different]:
                different.append(remedy)
        rivals.append(Rival(check, tuple(different[:MOST_PLACES])))
    return rivals if len(rivals) > 1 else []


def worth_asking(
    fixed: Sequence[str], outcomes: Sequence[str], causes: Sequence[str], order: Sequence[str]
) -> list[str]:
    """Return the alarms that could follow from these: how training comes out, and causes later in the tree."""
    place = {check: number for number, check in enumerate(order)}
    first = min(place.get(check, len(place)) for check in fixed)
    later = [check for check in causes if place.get(check, len(place)) > first]
    return [check for check in dict.fromkeys((*outcomes, *later)) if check not in fixed]


def verdict(trials: Sequence[Trial], outcomes: Sequence[str]) -> str:
    """Say in one note what was tried, what was seen, and what follows."""
    seen = "; ".join(str(trial) for trial in trials)
    solving = [trial for trial in trials if set(trial.gone) & set(outcomes)]
    alone = _roots([trial for trial in solving if len(trial.fixed) == 1])
    if len(alone) == 1:
        follows = f"{alone[0].fixed[0]} is the cause of {listed([c for c in alone[0].gone if c in outcomes])}."
    elif alone:
        follows = f"each of {listed([trial.fixed[0] for trial in alone])} alone fixes it."
    elif solving:
        follows = f"no single fix is enough: fix {listed(solving[0].fixed)} together."
    else:
        follows = "none of these is the only cause."
    return f"Root cause experiment on copies: {seen}. Conclusion: {follows}"


def _roots(trials: Sequence[Trial]) -> list[Trial]:
    """Leave out suspects that went by themselves when another one was fixed, unless that is so both ways."""
    names = {trial.fixed[0]: trial for trial in trials}
    return [
        trial
        for name, trial in names.items()
        if not any(name in other.gone and other.fixed[0] not in trial.gone for other in trials)
    ]


def told(findings: Sequence[Finding], trials: Sequence[Trial], outcomes: Sequence[str]) -> list[Finding]:
    """Write into each finding that was tried what was seen, and let it explain what went with it and nothing else."""
    alone = {trial.fixed[0]: trial for trial in trials if len(trial.fixed) == 1}
    fixed_by_one = {check for trial in alone.values() for check in trial.gone if check in outcomes}
    return [
        _with(finding, alone.get(finding.check), fixed_by_one) if finding.is_alarm else finding for finding in findings
    ]


def _with(finding: Finding, trial: Trial | None, fixed_by_one: set[str]) -> Finding:
    if trial is None:
        return finding
    disproved = {check for check in trial.stayed if check in fixed_by_one}
    explains = [check for check in (*finding.explains, *trial.gone) if check not in disproved]
    return replace(
        finding,
        evidence={**finding.evidence, "told apart": f"{trial}.", "cures alone": list(trial.gone)},
        told_apart=f"{trial}.",
        cures=trial.gone,
        explains=tuple(dict.fromkeys(explains)),
    )
