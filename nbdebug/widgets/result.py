"""The result of the whole run: its report, and the forms of it that stay in the notebook without a kernel."""

from __future__ import annotations

from nbdebug.engine.decision_tree import tree_order
from nbdebug.engine.diagnosis import report_of
from nbdebug.engine.session import Session
from nbdebug.report import Report
from nbdebug.report.page import as_fragment

__all__ = ["RESULT", "static_forms", "whole_report"]

RESULT = ""  # the selection of the tree for which the pane shows the result of the whole run


def whole_report(session: Session) -> Report:
    """Return the report of a session; checks of the tree that have no result yet are listed as not run."""
    return report_of(session, planned=tree_order(session.registry))


def static_forms(report: Report, text: str) -> dict[str, str]:
    """Return the report as it stays in the saved notebook; `text` stands for the wizard in plain text."""
    if not report.results:  # that nothing ran must not look as if nothing was found
        return {"text/html": "<p>nbdebug wizard: nothing was run yet.</p>", "text/plain": text}
    return {"text/html": as_fragment(report), "text/plain": f"{text}\n{report}"}
