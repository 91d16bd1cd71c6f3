"""Sentences for the outcome of a fix, with its numbers."""

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
    again = "" if failed is contests[0] else f" in the second run, with seed {failed.seed}"
    reasons = []
    if not failed.better:
        reasons.append(f"the {failed.measure} ends at {_number(failed.after)}{again}, {_against(failed)}")
    if not failed.clean:
        reasons.append(f"the check {finding.check} still reports the problem{again if failed.better else ''}")
    return "did not help", "; ".join(reasons) + "."


def _proof(finding: Finding, contests: Sequence[Contest]) -> str:
    first = contests[0]
    return (
        f"the check {finding.check} no longer reports the problem, in {len(contests)} runs. The check decides here, "
        f"because this problem need not show in a short run; the {first.measure} ends at {_number(first.after)}, "
        f"{_against(first)}."
    )


def _gain(contests: Sequence[Contest], judged_by: Judged) -> str:
    first, second = contests[0], contests[-1]
    verb = "rises" if any(word in first.measure for word in ("accuracy", "variance")) else "falls"
    why = ""
    if judged_by in ("answers", "shares"):
        what = "Predictions" if verb == "rises" else "Relative losses"
        why = f" {what} are compared, because the two losses are not comparable."
    return f"the {first.measure} {verb} to {_pair(first)} (with another seed: {_pair(second)}).{why}"


def _pair(contest: Contest) -> str:
    if not math.isfinite(contest.before):
        return f"{_number(contest.after)}, while the model does not train without the fix"
    return f"{_number(contest.after)} instead of {_number(contest.before)}"


def _against(contest: Contest) -> str:
    if not math.isfinite(contest.before):
        return "and the model does not train without the fix"
    return f"and at {_number(contest.before)} without the fix"


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "NaN"
