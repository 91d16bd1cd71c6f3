"""Sentences shared by all forms of the report, and formatting of user text and numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from nbdebug.core.text import clean_text, figure, plural

if TYPE_CHECKING:
    from nbdebug.core.finding import Finding, Result
    from nbdebug.core.remedy import Remedy
    from nbdebug.core.verification import Contest, Verification
    from nbdebug.report.report import Report

__all__ = [
    "by_seed",
    "counts_line",
    "diff_title",
    "first_remedy",
    "in_order",
    "not_examined",
    "not_seen",
    "not_tried",
    "tried",
]


NOT_PASSED = {  # the reason of a check that was skipped, what is not examined then, and the argument
    "no train_step was passed": ("your training loop", "train_step"),
    "there is no validation or test loader": ("validation data", "val_loader"),
}
_SKIPPED = {  # what is left out of a run though it may apply
    "quick": 'not tried: effort="quick" leaves training out; effort="normal" tries them',
    "stopped": "not reached before the run was stopped",
    "time": 'not tried: {limit}; effort="thorough" tries them',
    "memory": "not tried: there is not enough memory for a copy of the model",
    "user": "skipped by you",
}


def tried(finding: Finding, remedy: Remedy) -> Verification | None:
    """Return the outcome of a fix if it was tried on a copy."""
    return next((one for one in finding.verifications if one.remedy == remedy), None)


def in_order(finding: Finding) -> list[Remedy]:
    """Return the fixes of a finding, those that are verified on a copy first."""
    good = [one.remedy for one in finding.verifications if one.verified]
    return [r for r in finding.remedies if r in good] + [r for r in finding.remedies if r not in good]


def by_seed(verification: Verification) -> str:
    """Return what a tried fix came to from each random start."""
    found = [
        f"{one.measure} {_share(one, one.before)} → {_share(one, one.after)} (seed {one.seed})"
        for one in verification.contests
    ]
    return "; ".join(found) or verification.says


def _share(contest: Contest, value: float) -> str:
    """Write an accuracy in percent, as sentences do, and any other measure as a number."""
    return f"{value:.0%}" if "accuracy" in contest.measure else figure(value)


def diff_title(remedy: Remedy) -> str:
    """Return the title of a fix that is written as a diff of the user's own code."""
    return "In your code (run on a copy: the finding is gone)" if remedy.diff_ran else "In your code (not run)"


def first_remedy(finding: Finding) -> str:
    """Return the fix to try first: one verified on a copy, else the first one; empty if there is none."""
    helped = next((one for one in finding.verifications if one.verified), None)
    if helped is not None:
        return f"{helped.remedy.says} (verified on a copy)"
    return finding.remedies[0].says if finding.remedies else ""


def counts_line(report: Report) -> str:
    """Return the number of checks by status."""
    count = Counter(result.status for result in report.results)
    kinds = [f"{count[status]} {status}" for status in ("found", "clean", "skipped", "crashed") if count[status]]
    return f"{plural(len(report.results), 'check')} in {report.seconds:.1f} s: {', '.join(kinds) or 'none'}."


def not_seen(report: Report, most: int = 4) -> list[str]:
    """Name every check that crashed and count those that were skipped; the reasons of a few are given here.

    So *never ran* does not look like *nothing found*, and many that do not apply do not hide what was found.
    """
    crashed = _by_reason(result for result in report.results if result.status == "crashed")
    lines = [f"crashed: {', '.join(checks)} ({reason})" for reason, checks in crashed.items()]
    lines += [*not_tried(report), *not_examined(report)]
    skipped = [result for result in report.results if result.status == "skipped" and not result.is_undone]
    if len(skipped) > most:
        return [*lines, f"{plural(len(skipped), 'check')} not applicable; `report.results` says why."]
    return [*lines, *(f"skipped: {', '.join(names)} ({reason})" for reason, names in _by_reason(skipped).items())]


def not_tried(report: Report) -> list[str]:
    """Count the checks that may apply and were left out, in one line for each reason."""
    count = Counter(result.left_out for result in report.results if result.status == "skipped" and result.is_undone)
    known = report.environment.get("time limit")
    limit = f"time limit of {clean_text(known)}" if known else "out of time"
    return [
        f"{plural(number, 'check')} {_SKIPPED.get(kind, 'skipped').format(limit=limit)}."
        for kind, number in count.items()
    ]


def not_examined(report: Report) -> list[str]:
    """Say what a report without problems says nothing about, because it was not passed."""
    if report.alarms:
        return []
    reasons = {result.reason for result in report.results if result.status == "skipped"}
    absent = {what: name for reason, (what, name) in NOT_PASSED.items() if any(reason in r for r in reasons)}
    if not absent:
        return []
    return [f"Not examined: {' and '.join(absent)}; pass {' and '.join(f'{name}=…' for name in absent.values())}."]


def _by_reason(results: Iterable[Result]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for result in results:
        groups.setdefault(clean_text(result.reason), []).append(clean_text(result.check))
    return groups
