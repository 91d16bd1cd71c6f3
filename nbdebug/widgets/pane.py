"""The pane beside the tree: one step with its question and findings, or the result of the whole run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from html import escape
from typing import Any

from nbdebug.core.finding import Finding, Result
from nbdebug.core.text import plural
from nbdebug.engine.decision_tree import Next, Step, next_step, questions, stages, tree_order
from nbdebug.engine.root_cause import Experiment, planned
from nbdebug.engine.session import Session
from nbdebug.report.page import part_fragment, result_fragments
from nbdebug.report.verdict import verdict
from nbdebug.widgets.improving import Decompose, Improving
from nbdebug.widgets.layout import Face, Trial, heading, prose
from nbdebug.widgets.panels import Changed, questions_panel, thresholds_panel
from nbdebug.widgets.result import RESULT, whole_report

__all__ = ["Pane"]

Try = Callable[[Finding, int], None]


class Pane:
    """Fills the right side of the wizard, and renews only what has changed."""

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
        self.step = RESULT
        self.checks: tuple[str, ...] = ()
        self.running = False  # whether checks are being run
        self._part = "step"
        self._seen: Any = None
        self._summed: Any = None
        self._lock = threading.RLock()  # the worker renews the pane while a click may choose another step

    def show(self, step: str) -> None:
        """Show a step, a stage or the result anew, with questions and thresholds where there are any."""
        with self._lock:
            self._fill(step)
            self._seen = self._summed = None
            self.refresh()

    def _fill(self, step: str) -> None:
        self.step = step
        question, why, self.checks = self._about(step)
        self.face.question.value, self.face.why.value = heading(question), prose(escape(why))
        asked = [q for q in questions() if q.after == step and step != RESULT]
        self.face.ask(questions_panel(asked, self.session.journal.answers, self._answered))
        specs = [self.session.registry.checks[check] for check in self.checks]
        self.face.tune(thresholds_panel(specs, self.session.thresholds, self._changed))
        self.face.of_step(step != RESULT)

    @property
    def jobs(self) -> tuple[str | Decompose, ...]:
        """What the step's button does: its checks, or the decomposition of the error."""
        return (Decompose(),) if self._improving.about(self.step) else self.checks

    def refresh(self) -> None:
        """Renew what results change: the findings with their fixes, and what is next."""
        with self._lock:
            results = self.session.journal.results
            if self.step == RESULT:
                self._renew_result(results)
            else:
                self._renew_step([result for result in results if result.check in self.checks])
                self._renew_summary(results)
            self._show_next()

    def _renew_result(self, results: list[Result]) -> None:
        seen = self._state_of_run(results)
        if seen != self._seen:
            self._seen = seen
            self._show_result()

    def _renew_step(self, results: list[Result]) -> None:
        seen = [*_state_of(results), id(self._improving.result)]
        if seen != self._seen:
            self._seen = seen
            self._show_step(results)

    def _renew_summary(self, results: list[Result]) -> None:
        seen = self._state_of_run(results)
        if seen != self._summed:
            self._summed = seen
            self.face.show_summary(verdict(whole_report(self.session), running=self.running) if results else "")

    def _state_of_run(self, results: list[Result]) -> list[Any]:
        """Return what the result depends on; while checks run only findings, so that it does not flicker."""
        return [self.running, *_state_of([r for r in results if r.findings or not self.running])]

    def recommended(self) -> str:
        """Return the id of the step that is recommended next; empty where there is none."""
        advice = self._advice()
        if advice.step is not None and advice.step.checks:
            return advice.step.id
        check = advice.mend.check if advice.mend is not None else ""
        return next((step.id for step in self._steps() if check in step.checks), "")

    def _steps(self) -> list[Step]:
        return [step for stage in stages(self.session.registry) for step in stage.steps]

    def _about(self, chosen: str) -> tuple[str, str, tuple[str, ...]]:
        self._part = "step"
        if (improving := self._improving.about(chosen)) is not None:
            return (*improving, ())
        for stage in stages(self.session.registry):
            if stage.id == chosen:
                self._part = "stage"
                return stage.title, "", stage.checks
            for step in stage.steps:
                if step.id == chosen:
                    return step.label, f"{step.question} {step.why}", step.checks
        return "", "", ()

    def _show_result(self) -> None:
        """Show the result of the whole run: the most likely cause, its fixes, and below them everything else."""
        report = whole_report(self.session)
        outdated = len(self._stale)
        says = f"{plural(outdated, 'result')} out of date because something changed: run everything again."
        self.face.why.value = prose(escape(says)) if outdated and not self.running else ""
        if not report.results and not self.running:
            self.face.show_result(heading("The results are out of date." if outdated else "Nothing has run yet."), [])
            return
        answer, rest = result_fragments(report, running=self.running)
        self.face.show_result(answer, self._trials(report.alarms[:1]), rest, primary=True)

    def _show_step(self, results: list[Result]) -> None:
        if not results:
            self.face.show_result(self._improving.fragment if self._improving.about(self.step) else "", [])
            return
        whole = whole_report(self.session)
        findings = [finding for finding in whole.findings if finding.check in self.checks]
        not_run = tuple(check for check in whole.not_run if check in self.checks)
        shown = replace(whole, findings=findings, results=results, not_run=not_run, notes=[])
        explained_by = {check: cause.check for cause in whole.alarms for check in cause.explains}
        self.face.show_result(part_fragment(shown, self._part, explained_by), self._trials(findings))

    def _trials(self, findings: list[Finding]) -> list[Trial]:
        """Return a button's text and action for each fix that can be tried on a copy."""

        def action(finding: Finding, number: int) -> Callable[[], None]:
            return lambda: self._try(finding, number)

        return [
            (remedy.says, action(finding, number))
            for finding in findings
            for number, remedy in enumerate(finding.remedies)
            if remedy.verifiable and finding.session is not None
        ]

    def _advice(self) -> Next:
        journal = self.session.journal
        fresh = [result for result in journal.results if result.check not in self._stale]
        return next_step(fresh, journal.answers, journal.symptom, self.session.registry)

    def experiments(self) -> list[Experiment]:
        """Return the experiment that tells the remaining causes apart; empty where there is none."""
        plan = planned(self.session, tree_order(self.session.registry))
        return [plan] if plan is not None else []

    def _show_next(self) -> None:
        self.face.show_doubt(" ".join(experiment.says for experiment in self.experiments()))
        advice = self._advice()
        what = advice.step.label if advice.step is not None else ""
        what = what or (f"fix {advice.mend.check}." if advice.mend is not None else "")
        asked = advice.question.words if advice.question is not None else ""
        is_shown = self.step == RESULT and advice.mend is not None
        elsewhere = self.recommended() not in ("", self.step) and not is_shown
        self.face.show_next(what or asked, advice.why, elsewhere=elsewhere)

    def _answered(self, question: str, value: Any) -> None:
        self.session.answer(question, value)
        self._show_next()


def _state_of(results: list[Result]) -> list[Any]:
    """Return what tells results from others: which they are, and the fixes of theirs that were tried."""
    return [(id(r), *(str(v) for f in r.findings for v in f.verifications)) for r in results]
