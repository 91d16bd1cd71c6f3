"""Cause before symptom: the order in which findings are read, and which ones fold under which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nbdebug.core.finding import SEVERITIES, Finding

__all__ = ["folded", "ranked"]


def ranked(findings: Sequence[Finding], order: Sequence[str]) -> list[Finding]:
    """Put the most likely cause first.

    What another finding of this run explains comes last of the alarms, and before that what was fixed on a copy in vain
    while another fix helped. The others go by severity, then what was seen to be the cause, then by the order of the
    tree. `explains` keeps only what this run found.
    """
    place = {check: index for index, check in enumerate(order)}
    found = {finding.check for finding in findings if finding.is_alarm}
    actual = [
        replace(f, explains=tuple(check for check in f.explains if check in found and check != f.check))
        for f in findings
    ]
    one_helped = any(f.cures for f in actual)
    symptoms = {check for f in actual if f.is_alarm for check in f.explains}
    return sorted(
        actual,
        key=lambda f: (
            not f.is_alarm,
            f.check in symptoms and not _explains_back(f, actual),
            one_helped and f.cures == (),
            SEVERITIES.index(f.severity),
            not f.cures,
            place.get(f.check, len(place)),
        ),
    )


def folded(findings: Sequence[Finding]) -> list[tuple[Finding, list[Finding]]]:
    """Group ranked findings: each cause with the symptoms that it explains, every finding exactly once."""
    groups: list[tuple[Finding, list[Finding]]] = []
    taken: set[int] = set()
    for index, cause in enumerate(findings):
        if index in taken:
            continue
        under = [
            i
            for i, other in enumerate(findings)
            if i > index and i not in taken and cause.is_alarm and other.check in cause.explains
        ]
        taken.update(under)
        groups.append((cause, [findings[i] for i in under]))
    return groups


def _explains_back(finding: Finding, findings: Sequence[Finding]) -> bool:
    """Whether two findings explain each other, so that neither may sink below the other for it."""
    explainers = [f for f in findings if f.is_alarm and finding.check in f.explains]
    return bool(explainers) and all(f.check in finding.explains for f in explainers)
