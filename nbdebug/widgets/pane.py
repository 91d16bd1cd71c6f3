"""What the wizard shows in its body: one step with its question and evidence, or the result of the whole run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from html import escape
from typing import Any

from nbdebug.core.finding import Result
from nbdebug.core.text import plural
from nbdebug.engine.decision_tree import Next, Stage, Step, next_step, questions, tree_order, whole_tree
from nbdebug.engine.root_cause import Experiment, planned
from nbdebug.engine.session import Session
from nbdebug.report.page import Proof, part_fragment
from nbdebug.report.verdict import verdict
from nbdebug.widgets.fixes_panel import Try, trials_of
from nbdebug.widgets.for_assistant import MOST_COPIED
from nbdebug.widgets.improving import Decompose, Improving
from nbdebug.widgets.layout import Face
from nbdebug.widgets.measured import measured
from nbdebug.widgets.panels import Changed, questions_panel, thresholds_panel
from nbdebug.widgets.result import RESULT, whole_report, whole_result
from nbdebug.widgets.screens import about_step, heading, prose, title_of

__all__ = ["Pane"]

NEEDS_VAL = "It compares training with validation data: pass val_loader=… to the wizard."
ONWARD = ("error-parts", "known-result", "error-analysis", "tuning")  # where to go when no problem is left
OUTDATED = "Something changed since this step ran: its result is out of date."


class Pane:
    """Fills the body of the wizard, and renews only what has changed."""

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
        self._seen: Any = None
        self._summed: Any = None
        self._lock = threading.RLock()  # the worker renews the pane while a click may choose another step

    def show(self, step: str) -> None:
        """Show a step or the result anew, with questions and thresholds where there are any."""
        with self._lock:
            self._fill(step)
            self._seen = self._summed = None
            self.refresh()

    def _fill(self, chosen: str) -> None:
        self.step, face = chosen, self.face
        place = self._place()
        self.checks = place[1].checks if place is not None else ()
        asked = [q for q in questions() if place is not None and q.after == chosen]
        face.ask(questions_panel(asked, self.session.journal.answers, self._answered))
        specs = [self.session.registry.checks[check] for check in self.checks]
        face.tune(thresholds_panel(specs, self.session.thresholds, self._changed))
        face.of_step(place is not None, runs=bool(self.jobs), rest=len(self.rest_of_stage) > len(self.checks))
        face.kicker.value = face.question.value = face.why.value = ""
        if place is not None:
            stage, step = place
            number = stage.steps.index(step) + 1
            kicker = f"{stage.title} · step {number} of {len(stage.steps)}"
            face.kicker.value = f"<div class='nbdebug-quiet'>{escape(kicker)}</div>"
            face.question.value = heading(title_of(step))
            before, after = self.neighbor(-1), self.neighbor(1)
            face.back.disabled, face.forward.disabled = before is None, after is None
            face.forward.description = f"Next: {after.label} →" if after is not None else "Next →"

    def _place(self) -> tuple[Stage, Step] | None:
        """Return the step that is shown, with its stage; None for the result."""
        return next((pair for pair in self._pairs() if pair[1].id == self.step), None)

    def _pairs(self) -> list[tuple[Stage, Step]]:
        return [(stage, step) for stage in whole_tree(self.session.registry) for step in stage.steps]

    def place_of(self, check: str) -> str:
        """Return the stage and the step that a check belongs to, in words; empty for anything else."""
        return next((f"{stage.title} › {step.label}" for stage, step in self._pairs() if check in step.checks), "")

    def neighbor(self, offset: int) -> Step | None:
        """Return the step before or behind the one that is shown, in the order of the tree."""
        steps = [step for _, step in self._pairs()]
        at = next((i for i, step in enumerate(steps) if step.id == self.step), -1)
        return steps[at + offset] if at >= 0 and 0 <= at + offset < len(steps) else None

    @property
    def jobs(self) -> tuple[str | Decompose, ...]:
        """What the step's button does: its checks, or the decomposition of the error."""
        if self._improving.is_step(self.step):
            return (Decompose(),) if self._improving.is_offered else ()
        return self.checks

    @property
    def rest_of_stage(self) -> tuple[str, ...]:
        """The checks of this stage, from the step that is shown on."""
        place = self._place()
        if place is None:
            return ()
        stage, step = place
        return tuple(check for other in stage.steps[stage.steps.index(step) :] for check in other.checks)

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
        seen = [*_state_of(results), id(self._improving.result), bool(self._stale & set(self.checks))]
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
        if advice.step is not None:
            return advice.step.id
        if advice.question is not None:
            return advice.question.after
        return self.step_of(advice.fix.check) if advice.fix is not None else ""

    def step_of(self, check: str) -> str:
        """Return the id of the step that a check belongs to; empty where there is none."""
        return next((step.id for _, step in self._pairs() if check in step.checks), "")

    def _show_result(self) -> None:
        """Show the result of the whole run: the most likely cause, its fixes, and below them everything else."""
        outdated = len(self._stale)
        says = f"{plural(outdated, 'result')} out of date because something changed: run the diagnosis again."
        self.face.why.value = prose(escape(says)) if outdated and not self.running else ""
        self.face.show_onward([])
        report = whole_report(self.session)
        if not report.results and not self.running:
            self.face.show_result(
                heading("The results are out of date." if outdated else "Nothing has run yet."), [], proof=Proof()
            )
            return
        answer, proof, rest = whole_result(self.session, report, running=self.running)
        trials = [] if self.running else trials_of(report.alarms[:1], self._try)
        copied = "" if self.running else report.to_markdown(max_chars=MOST_COPIED)
        self.face.show_result(answer, trials, rest, None if self.running else proof, copied)
        if not (self.running or report.alarms or report.not_run):
            labels = {step.id: step.label for _, step in self._pairs()}
            self.face.show_onward([(labels[name], self._opener(name)) for name in ONWARD if name in labels])

    def _opener(self, step: str) -> Callable[[], None]:
        return lambda: setattr(self.face.tree, "selected", step)

    def _show_step(self, results: list[Result]) -> None:
        place = self._place()
        if place is not None:
            note = OUTDATED if self._stale & set(self.checks) else ""
            self.face.why.value = about_step(*place, self.session, note)
        done = bool(results) and not self._stale & set(self.checks)
        self.face.run_step.description = "Run this step again" if done else "Run this step"
        fixable = any(finding.remedies for result in results for finding in result.findings)
        self.face.lead_with(self.face.run_step if not done else None if fixable else self.face.forward)
        self.face.show_onward([])
        if not results:
            self.face.show_result(self._without_checks(), [], proof=Proof())
            return
        whole = whole_report(self.session)
        findings = [finding for finding in whole.findings if finding.check in self.checks]
        not_run = tuple(check for check in whole.not_run if check in self.checks)
        shown = replace(whole, findings=findings, results=results, not_run=not_run, notes=[])
        explained_by = {check: cause.check for cause in whole.alarms for check in cause.explains}
        proof = measured(place[1], self.session) if place is not None else Proof()
        self.face.show_result(part_fragment(shown, "step", explained_by), trials_of(findings, self._try), proof=proof)

    def _without_checks(self) -> str:
        """Return what a step shows that has no results: the decomposition, or what else serves it."""
        place = self._place()
        if place is None or place[1].checks:
            return ""
        if self._improving.is_step(self.step):
            return self._improving.fragment or ("" if self._improving.is_offered else prose(escape(NEEDS_VAL)))
        names = ", ".join(f"<code>nbdebug.{escape(name)}</code>" for name in place[1].instruments)
        return prose(f"In code: {names}") if names else ""

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
        what = what or (f"fix {advice.fix.check}." if advice.fix is not None else "")
        asked = advice.question.words if advice.question is not None else ""
        is_shown = self.step == RESULT and advice.fix is not None
        if is_shown:  # the fix stands above with its buttons
            self.face.show_next("", "", elsewhere=False)
            return
        elsewhere = self.recommended() not in ("", self.step)
        self.face.show_next(what or asked, advice.why, elsewhere=elsewhere)

    def _answered(self, question: str, value: Any) -> None:
        self.session.answer(question, value)
        self._show_next()


def _state_of(results: list[Result]) -> list[Any]:
    """Return what tells results from others: which they are, and the fixes of theirs that were tried."""
    return [(id(r), *(str(v) for f in r.findings for v in f.verifications)) for r in results]
