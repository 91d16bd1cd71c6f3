"""Walk the commits between two revisions as `git bisect` does, with a short training as the test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from nbdebug.engine.bisection.course import LOSS, TRAINING_LOSS
from nbdebug.engine.bisection.gate import HALF, LEAST_GAP
from nbdebug.engine.bisection.revisions.repository import Repository, Revision

__all__ = ["Step", "Walk", "walk"]

Verdict = Literal["learns", "fails", "not tested"]
Measure = Callable[[Revision, Mapping[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class Step:
    """One revision that was trained: its verdict, and the metric that it came to."""

    revision: Revision
    verdict: Verdict
    value: float | None
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as data."""
        return {**vars(self), "revision": self.revision.to_dict()}


@dataclass
class Walk:
    """The walk so far: its steps, and the commits of which one is the first that fails."""

    outcome: str = ""
    reason: str = ""
    measure: str = ""
    steps: list[Step] = field(default_factory=list)
    suspects: list[Revision] = field(default_factory=list)
    diff: str = ""
    training_steps: int = 0

    @property
    def first_bad(self) -> Revision | None:
        """The first commit that fails; None where several may be it."""
        return self.suspects[0] if len(self.suspects) == 1 and self.outcome == "found" else None

    def to_dict(self) -> dict[str, Any]:
        """Return everything as data."""
        listed = {"steps": [s.to_dict() for s in self.steps], "suspects": [r.to_dict() for r in self.suspects]}
        return {**vars(self), **listed, "first_bad": self.first_bad.to_dict() if self.first_bad else None}


def walk(
    repository: Repository, good: Revision, bad: Revision, measure: Measure, steps: int | None, found: Walk
) -> None:
    """Train both ends, then halve what lies between them; `found` is kept current, so that a stop loses nothing."""
    if not repository.is_ancestor(good, bad):
        found.outcome = "not walked"
        found.reason = f"{bad.short} was not developed from {good.short}, so that no commits lead from one to the other"
        return
    ours, test = _ends(good, bad, measure, steps, found)
    if found.outcome:
        return
    goods, skipped = [good], set[str]()
    found.suspects = _between(repository, bad, goods)
    while True:
        waiting = [name for name in repository.halving(bad, goods) if name != bad.hash and name not in skipped]
        if not waiting:
            break
        revision = repository.revision(waiting[0])
        step = _judged(revision, measure(revision, test), ours, found)
        found.steps.append(step)
        if step.verdict == "learns":
            goods.append(revision)
        elif step.verdict == "fails":
            bad = revision
        else:
            skipped.add(revision.hash)
        found.suspects = _between(repository, bad, goods)
    found.outcome = "found"
    if found.first_bad is not None:
        found.diff = repository.diff(found.first_bad)


def _ends(
    good: Revision, bad: Revision, measure: Measure, steps: int | None, found: Walk
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Train good and bad; return what good came to, and what every other revision is measured by."""
    ours = _counted(found, measure(good, {"steps": steps}))
    found.measure = ours["measure"]
    found.steps.append(Step(good, "learns" if ours["learns"] else "fails", ours["value"], ours["failure"]))
    if not ours["learns"]:
        found.outcome, found.reason = "good fails", ours["failure"]
        return ours, {}
    known = {"steps": ours["steps"], "ends": ours["ends"]}
    theirs = _counted(found, measure(bad, {**known, "side": "bad"}))
    reason = _not_comparable(ours, theirs)
    found.steps.append(Step(bad, "fails", theirs["value"], theirs["failure"] or reason))
    if reason:
        found.outcome, found.reason = "not measured", reason
        return ours, {}
    low = 0.0 if theirs["failure"] else max(theirs["skill"], 0.0)
    test = {**known, "goal": low + HALF * (ours["skill"] - low)}
    if not theirs["failure"]:
        again = {} if theirs["skill"] >= ours["skill"] - LEAST_GAP else _counted(found, measure(bad, test))
        if not again or again["learns"] or not again["agree"]:
            slow = "slower" if again.get("learns") else "depends on the start"
            found.outcome = slow if again else "both learn"
    return {**ours, "bad_fails_to_run": bool(theirs["failure"])}, test


def _judged(revision: Revision, run: dict[str, Any], good: Mapping[str, Any], found: Walk) -> Step:
    """Return the verdict on a revision; one that cannot be compared says nothing, unless `bad` does not run either."""
    _counted(found, run)
    reason = run["failure"] or _not_comparable(good, run)
    if run["failure"] and good["bad_fails_to_run"]:
        return Step(revision, "fails", None, reason)
    if reason or not run["agree"]:
        return Step(revision, "not tested", run["value"], reason or "it depends on the random start")
    return Step(revision, "learns" if run["learns"] else "fails", run["value"])


def _counted(found: Walk, run: dict[str, Any]) -> dict[str, Any]:
    found.training_steps += run["training_steps"]
    return run


def _not_comparable(good: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Say why a revision is not measured by the same metric as good; empty where it is."""
    if other["failure"]:
        return ""
    by_loss = good["measure"] in (LOSS, TRAINING_LOSS)
    if by_loss != (other["measure"] in (LOSS, TRAINING_LOSS)):
        return f"`good` is measured by {good['measure']}, this one by {other['measure']}"
    if by_loss and good["program"] != other["program"]:
        return "no metric fits the outputs and targets, and the loss is not that of `good`; pass --metric"
    return ""


def _between(repository: Repository, bad: Revision, goods: list[Revision]) -> list[Revision]:
    """Return the commits of which one is the first that fails, the latest first."""
    return [repository.revision(name) for name in repository.between(bad, goods)]
