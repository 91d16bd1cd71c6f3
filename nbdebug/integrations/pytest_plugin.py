"""The pytest plugin: a fixture `nbdebug` whose `check` fails the test with the finding, its place and its fix.

pytest loads this file in every run in which nbdebug is installed. So it imports neither torch nor anything else that
takes time before a test asks for the fixture, and it adds no option, marker or hook.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from nbdebug.core.finding import Finding
    from nbdebug.report import Report

__all__ = ["Checker", "nbdebug"]

SEVERITIES = ("bug", "suspect", "note")


@pytest.fixture(name="nbdebug", scope="session")
def nbdebug() -> Checker:
    """Diagnose a model in a test: `nbdebug.check(model, loader)` fails it if there is a bug."""
    return Checker()


class Checker:
    """The package `nbdebug` as a fixture: all of its names, except that `check` checks a model."""

    def __getattr__(self, name: str) -> Any:
        import nbdebug

        return getattr(nbdebug, name)

    def check(
        self, model: Any, loader: Any, loss_fn: Any = None, optimizer: Any = None, *, fail_on: str = "bug", **more: Any
    ) -> Report:
        """Diagnose the model, fail the test at a finding of at least this severity, and return the report.

        Args:
            model: The model.
            loader: The DataLoader of the training data, or any iterable of batches.
            loss_fn: The loss; without one it is inferred.
            optimizer: The optimizer; Adam by default.
            fail_on: "bug", "suspect" or "note": the least severity that fails the test.
            **more: The other arguments of `nbdebug.diagnose`, for example `effort="quick"`.
        """
        __tracebackhide__ = True
        from nbdebug.engine.diagnosis import diagnose
        from nbdebug.errors import BadInput

        if fail_on not in SEVERITIES:
            known = ", ".join(SEVERITIES)
            raise BadInput(f"it is {fail_on!r}", where="fail_on", expected=f"one of {known}", do='write fail_on="bug"')
        report = diagnose(model, loader, loss_fn, optimizer, **{"progress": False, **more})
        grave = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
        failing = [finding for finding in report.findings if finding.severity in grave]
        if failing:
            pytest.fail("\n".join(_told(report, finding) for finding in failing))
        return report


def _told(report: Report, finding: Finding) -> str:
    """Return the sentence of a finding, its place and its first fix."""
    from nbdebug.core.text import clean_text
    from nbdebug.report.words import first_remedy

    place = report.places.get(finding.where)
    where = f" at {finding.where}" + (f" ({place})" if place else "") if finding.where else ""
    lines = [f"{finding.severity} {finding.check}{where}", f"  {finding.says}"]
    if fix := first_remedy(finding):
        lines.append(f"  fix: {fix}")
    return clean_text("\n".join(lines))
