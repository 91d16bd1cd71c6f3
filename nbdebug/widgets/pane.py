"""The step at hand: its question, what a person can say to it, what was found, and what to do next."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

from nbdebug.arbitration import Experiment, planned
from nbdebug.decision_tree import Next, Step, next_step, questions, stages, tree_order
from nbdebug.diagnosis import report_of
from nbdebug.finding import Finding
from nbdebug.report import Report
from nbdebug.report.page import as_fragment
from nbdebug.session import Session
from nbdebug.widgets.face import Face, heading, prose
from nbdebug.widgets.improving import Decompose, Improving
from nbdebug.widgets.panels import Changed, questions_panel, thresholds_panel

__all__ = ["Pane"]

Try = Callable[[Finding, int], None]


class Pane:
    """Fills the right side of the wizard for one step, or for a whole stage, and renews only what has changed."""

    def __init__(
        self,
        session: Session,
        face: Face,
        stale: set[str],
        try_remedy: Try,
        changed: Changed,
        improving: Improving | None = None,
    ) -> None:
        self.session, self.face, self._stale = session, face, stale
        self._improving = improving or Improving(session)
        self._try, self._changed = try_remedy, changed
        self.step = ""
        self.checks: tuple[str, ...] = ()
        self._seen: Any = None

    def show(self, step: str) -> None:
        """Show a step anew, with its questions and thresholds."""
        self.step = step
        question, why, self.checks = self._about(step)
        self.face.question.value, self.face.why.value = heading(question), prose(escape(why))
        asked = [q for q in questions() if q.after == step]
        self.face.ask(questions_panel(asked, self.session.journal.answers, self._answered))
        specs = [self.session.registry.checks[check] for check in self.checks]
        self.face.tune(thresholds_panel(specs, self.session.thresholds, self._changed))
        self._seen = None
        self.refresh()

    @property
    def jobs(self) -> tuple[str | Decompose, ...]:
        """What the step's button does: its checks, or the decomposition of the error."""
        return (Decompose(),) if self._improving.about(self.step) else self.checks

    def refresh(self) -> None:
        """Renew what results change: the findings with their remedies, and what is next."""
        results = [result for result in self.session.journal.results if result.check in self.checks]
        seen: list[Any] = [(id(r), *(str(v) for f in r.findings for v in f.verifications)) for r in results]
        seen.append(id(self._improving.result))
        if seen != self._seen:
            self._seen = seen
            self._show_results(results)
        self._show_next()

    def recommended(self) -> str:
        """Give the id of the step that is recommended next; empty where that is none."""
        advice = self._advice()
        if advice.step is not None and advice.step.checks:
            return advice.step.id
        check = advice.mend.check if advice.mend is not None else ""
        return next((step.id for step in self._steps() if check in step.checks), "")

    def _steps(self) -> list[Step]:
        return [step for stage in stages(self.session.registry) for step in stage.steps]

    def _about(self, chosen: str) -> tuple[str, str, tuple[str, ...]]:
        if (improving := self._improving.about(chosen)) is not None:
            return (*improving, ())
        for stage in stages(self.session.registry):
            if stage.id == chosen:
                return stage.title, "", stage.checks
            for step in stage.steps:
                if step.id == chosen:
                    return step.question, step.why, step.checks
        return "", "", ()

    def _show_results(self, results: list[Any]) -> None:
        if not results:
            self.face.show_result(self._improving.fragment if self._improving.about(self.step) else "", [])
            return
        whole = report_of(self.session)
        findings = [finding for finding in whole.findings if finding.check in self.checks]
        seconds = sum(result.seconds for result in results)
        shown = Report(findings, results, whole.subject, whole.notes, places=whole.places, seconds=seconds)
        self.face.show_result(as_fragment(shown), self._trials(findings))

    def _trials(self, findings: list[Finding]) -> list[tuple[str, Callable[[], None]]]:
        """Give a button's text and deed for each remedy that can be tried on a copy."""

        def deed(finding: Finding, number: int) -> Callable[[], None]:
            return lambda: self._try(finding, number)

        return [
            (remedy.says, deed(finding, number))
            for finding in findings
            for number, remedy in enumerate(finding.remedies)
            if remedy.verifiable and finding.session is not None
        ]

    def _advice(self) -> Next:
        journal = self.session.journal
        fresh = [result for result in journal.results if result.check not in self._stale]
        return next_step(fresh, journal.answers, journal.symptom, self.session.registry)

    def experiments(self) -> list[Experiment]:
        """Give the experiment that tells the remaining causes apart; empty where there is none."""
        plan = planned(self.session, tree_order(self.session.registry))
        return [plan] if plan is not None else []

    def _show_next(self) -> None:
        self.face.show_doubt(" ".join(experiment.says for experiment in self.experiments()))
        advice = self._advice()
        what = advice.step.question if advice.step is not None else ""
        what = what or (f"mend {advice.mend.check}." if advice.mend is not None else "")
        asked = advice.question.words if advice.question is not None else ""
        self.face.show_next(what or asked, advice.why, elsewhere=self.recommended() not in ("", self.step))

    def _answered(self, question: str, value: Any) -> None:
        self.session.answer(question, value)
        self._show_next()
