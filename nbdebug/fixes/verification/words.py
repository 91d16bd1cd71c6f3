"""The sentence that reports the result of verifying a fix, with its numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nbdebug.core.finding import Finding
from nbdebug.core.verification import Contest, Verdict
from nbdebug.fixes import Judged

__all__ = ["said"]


def said(finding: Finding, contests: Sequence[Contest], judged_by: Judged, runs: int) -> tuple[Verdict, str]:
    """Return the verdict and its sentence."""
    if len(contests) == runs and all(contest.better and contest.clean for contest in contests):
        return "verified", _proof(finding, contests) if judged_by in ("check", "clean") else _gain(contests, judged_by)
    failed = next(contest for contest in contests if not (contest.better and contest.clean))
    again = "" if failed is contests[0] else f" in the second run (seed {failed.seed})"
    reasons = []
    if not failed.better:
        reasons.append(f"with the fix, the {failed.measure} reaches {_number(failed.after)}{again}, {_against(failed)}")
    if not failed.clean:
        reasons.append(f"the check {finding.check} still reports it{again if failed.better else ''}")
    return "did not help", "; ".join(reasons) + "."


def _proof(finding: Finding, contests: Sequence[Contest]) -> str:
    first = contests[0]
    reached = f"With the fix, the {first.measure} reaches {_number(first.after)}, {_against(first)}."
    return (
        f"the check {finding.check} no longer reports it in {len(contests)} runs, which decides here, because the "
        f"problem need not show in a short training run. {reached}"
    )


def _gain(contests: Sequence[Contest], judged_by: Judged) -> str:
    first, second = contests[0], contests[-1]
    verb = "rises" if any(word in first.measure for word in ("accuracy", "variance")) else "falls"
    why = ""
    if judged_by in ("answers", "shares"):
        what = "Predictions" if verb == "rises" else "Fractions of the initial loss"
        why = f" {what} are compared, because the two loss functions differ."
    return f"the {first.measure} {verb} to {_pair(first)} (second seed: {_pair(second)}).{why}"


def _pair(contest: Contest) -> str:
    if not math.isfinite(contest.before):
        return f"{_number(contest.after)}, while without the fix the loss is not finite"
    return f"{_number(contest.after)} instead of {_number(contest.before)}"


def _against(contest: Contest) -> str:
    if not math.isfinite(contest.before):
        return "without it the loss is not finite"
    return f"without it {_number(contest.before)}"


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "a non-finite value"
