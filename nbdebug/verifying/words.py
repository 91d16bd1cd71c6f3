"""The sentence that tells what came of a remedy, with its numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nbdebug.finding import Finding
from nbdebug.remedies import Judged
from nbdebug.verification import Contest, Verdict

__all__ = ["said"]


def said(finding: Finding, contests: Sequence[Contest], judged_by: Judged, runs: int) -> tuple[Verdict, str]:
    """Give the verdict and its sentence."""
    if len(contests) == runs and all(contest.better and contest.clean for contest in contests):
        return "verified", _proof(finding, contests) if judged_by == "check" else _gain(contests, judged_by)
    failed = next(contest for contest in contests if not (contest.better and contest.clean))
    again = "" if failed is contests[0] else f" in the second run, with the seed {failed.seed}"
    reasons = []
    if not failed.better:
        reasons.append(f"the {failed.measure} comes to {_number(failed.after)}{again}, {_against(failed)}")
    if not failed.clean:
        reasons.append(f"the check {finding.check} still finds it{again if failed.better else ''}")
    return "did not help", "; ".join(reasons) + "."


def _proof(finding: Finding, contests: Sequence[Contest]) -> str:
    first = contests[0]
    return (
        f"the check {finding.check} no longer finds it, in {len(contests)} runs. That is the proof, because such an "
        f"illness need not show in a short training; the {first.measure} comes to {_number(first.after)}, "
        f"{_against(first)}."
    )


def _gain(contests: Sequence[Contest], judged_by: Judged) -> str:
    first, second = contests[0], contests[-1]
    verb = "rises" if any(word in first.measure for word in ("accuracy", "variance")) else "falls"
    why = ""
    if judged_by in ("answers", "shares"):
        what = "The answers" if verb == "rises" else "Shares"
        why = f" {what} are compared, because both losses are not of one kind."
    return f"the {first.measure} {verb} to {_pair(first)} (with another seed: {_pair(second)}).{why}"


def _pair(contest: Contest) -> str:
    if not math.isfinite(contest.before):
        return f"{_number(contest.after)}, where without the remedy nothing is learned"
    return f"{_number(contest.after)} instead of {_number(contest.before)}"


def _against(contest: Contest) -> str:
    if not math.isfinite(contest.before):
        return "and without the remedy nothing is learned"
    return f"and without the remedy to {_number(contest.before)}"


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "no number"
