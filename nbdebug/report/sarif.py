"""The findings as SARIF 2.1.0, the format in which tools of a CI exchange what analysers found."""

from __future__ import annotations

import hashlib
import json
from typing import Any
from urllib.parse import quote

from nbdebug.core.finding import Finding, Place, Remedy, Result, plain
from nbdebug.report.outline import about
from nbdebug.report.prepare import prepared
from nbdebug.report.report import Report
from nbdebug.report.words import tried

__all__ = ["as_sarif"]

LEVELS = {"bug": "error", "suspect": "warning", "note": "note"}


def as_sarif(report: Report) -> str:
    """Return the report as a SARIF log with one run; what was skipped or crashed is told as a notification."""
    report = prepared(report)
    rules = list(dict.fromkeys([*(result.check for result in report.results), *(f.check for f in report.findings)]))
    run = {
        "tool": {"driver": _driver(report, rules)},
        "results": [_result(finding, rules, report.places.get(finding.where)) for finding in report.findings],
        "invocations": [_invocation(report)],
        "columnKind": "unicodeCodePoints",
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=1, allow_nan=False)


def _driver(report: Report, rules: list[str]) -> dict[str, Any]:
    return {
        "name": "nbdebug",
        "semanticVersion": str(report.environment.get("nbdebug", "0.0.0")),
        "rules": [_rule(check) for check in rules],
    }


def _rule(check: str) -> dict[str, Any]:
    """Describe a check from its documentation."""
    texts = about(check)
    rule: dict[str, Any] = {"id": check, "shortDescription": {"text": texts.title or check}}
    if texts.why:
        rule["fullDescription"] = {"text": texts.why}
        rule["help"] = {"text": f"Why it matters: {texts.why}\n\nWhat to try: {texts.remedy}"}
    return rule


def _outcome(finding: Finding, remedy: Remedy) -> str:
    one = tried(finding, remedy)
    return f" Tried on a copy: {one}" if one is not None else ""


def _result(finding: Finding, rules: list[str], place: Place | None) -> dict[str, Any]:
    tries = "".join(f"\nTry: {remedy.says}{_outcome(finding, remedy)}" for remedy in finding.remedies)
    result: dict[str, Any] = {
        "ruleId": finding.check,
        "ruleIndex": rules.index(finding.check),
        "level": LEVELS[finding.severity],
        "message": {"text": f"{finding.says}{tries}"},
        "partialFingerprints": {"checkAndPlace/v1": _fingerprint(finding)},
        "properties": {"evidence": plain(finding.evidence), "explains": list(finding.explains)},
    }
    if finding.where:
        result["locations"] = [_location(finding.where, place)]
    return result


def _location(where: str, place: Place | None) -> dict[str, Any]:
    """Return the place in the model as a logical location, and the line that made it where that stands in a file."""
    location: dict[str, Any] = {"logicalLocations": [{"fullyQualifiedName": where, "kind": "member"}]}
    if place is not None and place.file.endswith(".py"):
        region = {"startLine": place.line, "snippet": {"text": place.text}}
        location["physicalLocation"] = {"artifactLocation": {"uri": quote(place.file)}, "region": region}
    return location


def _fingerprint(finding: Finding) -> str:
    """Name a finding so that the next run is known to have found the same one, whatever its numbers are then."""
    return hashlib.sha256(f"{finding.check}\0{finding.where}".encode()).hexdigest()[:32]


def _invocation(report: Report) -> dict[str, Any]:
    unseen = [result for result in report.results if result.status in ("skipped", "crashed")]
    return {
        "executionSuccessful": all(result.status != "crashed" for result in report.results),
        "toolExecutionNotifications": [_notification(result) for result in unseen],
    }


def _notification(result: Result) -> dict[str, Any]:
    return {
        "level": "error" if result.status == "crashed" else "note",
        "message": {"text": f"{result.check} did not run ({result.status}): {result.reason}"},
        "associatedRule": {"id": result.check},
    }
