"""The result of the whole run: its report, and the forms of it that stay in the notebook without a kernel."""

from __future__ import annotations

import math

from nbdebug.engine.decision_tree import tree_order
from nbdebug.engine.diagnosis import report_of
from nbdebug.engine.session import Session
from nbdebug.engine.verdicts import exchanged, ruled_out, says_learning
from nbdebug.evidence.learning_gate import LearningGate
from nbdebug.report import Report
from nbdebug.report.page import Proof, as_fragment, result_fragments
from nbdebug.setup import Setup
from nbdebug.widgets.pictures import LIVE
from nbdebug.widgets.step_charts import training_curve

__all__ = ["RESULT", "static_forms", "whole_report", "whole_result"]

RESULT = ""  # the selection of the tree for which the pane shows the result of the whole run


def whole_report(session: Session) -> Report:
    """Return the report of a session; checks of the tree that have no result yet are listed as not run."""
    return report_of(session, planned=tree_order(session.registry))


def whole_result(session: Session, report: Report, *, running: bool) -> tuple[str, Proof, str]:
    """Return the verdict, its picture and the rest, with what the training was compared with."""
    gate = session.known(LearningGate)
    learns = _learns(gate) if gate is not None and gate.verdict == "learns" else ""
    panels = exchanged(session) if not running else None
    answer, proof, rest = result_fragments(
        report, running=running, learns=learns, rivals=ruled_out(session), panels=panels, live=LIVE
    )
    if running or report.alarms:
        return answer, proof, rest
    return answer + not_handed_over(session.setup), _own_curve(gate), rest


def not_handed_over(setup: Setup) -> str:
    """Return which arguments would have allowed more checks."""
    missing = {
        "val_loader": setup.val_feed is None and "leakage and shift between the splits; bias, variance",
        "train_step": setup.train_step is None and "bugs of your own training loop",
        "optimizer": setup.optimizer is None and setup.train_step is None and "your own learning rate and weight decay",
        "scheduler": setup.scheduler is None and "the learning-rate schedule",
    }
    rows = "".join(f"<li><code>{name}</code>: {says}</li>" for name, says in missing.items() if says)
    return f"<p class='nbdebug-missing'><b>Not tried</b>, because it was not passed:</p><ul>{rows}</ul>" if rows else ""


def _learns(gate: LearningGate) -> str:
    """Return what a training that learns came to, and what that was compared with."""
    says = says_learning(gate)
    known = gate.reference_name not in ("", "a perfect prediction") and math.isfinite(gate.reference)
    return f"{says}; {gate.reference_name}: skill {gate.reference:.2f}." if known else f"{says}."


def _own_curve(gate: LearningGate | None) -> Proof:
    """Return the training that was judged where nothing was found."""
    if gate is None or not gate.losses:
        return Proof()
    return Proof(charts=(training_curve(gate, "Training loss on a copy"),))


def static_forms(report: Report, text: str) -> dict[str, str]:
    """Return the report as it stays in the saved notebook; `text` stands for the wizard in plain text."""
    if not report.results:  # that nothing ran must not look as if nothing was found
        return {"text/html": "<p>nbdebug wizard: nothing was run yet.</p>", "text/plain": text}
    return {"text/html": as_fragment(report), "text/plain": f"{text}\n{report}"}
