"""A session asks checks, gathers the evidence they need once, and writes what they say into the journal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from nbdebug.core.control import Control
from nbdebug.core.finding import Finding, Result
from nbdebug.core.journal import Event, Stopped
from nbdebug.core.registry import CheckSpec, Need, ProbeSpec, Registry, registry
from nbdebug.engine.decision_tree import checked_answer, checked_answers, find_symptom
from nbdebug.engine.probe_runner import Missing, ProbeRunner, collecting_only_new, not_tried
from nbdebug.errors import (
    BadInput,
    Cancelled,
    NotApplicable,
    OutOfTime,
    described,
)
from nbdebug.evidence.learning_gate import LearningGate
from nbdebug.evidence.recorded_structure import RecordedStructure
from nbdebug.sandbox import Sandbox, interrupts_held
from nbdebug.sandbox.state_snapshot import StateSnapshot
from nbdebug.setup import Setup

__all__ = ["Missing", "Session", "not_tried"]

UNTRIED = ("quick", "time", "memory")
RACE_SHARE = 0.35  # of the budget: kept for the differential diagnosis, once it is known that the training fails


class Session(ProbeRunner):
    """One subject under examination: its evidence so far, its journal, and the thresholds in force."""

    has_model = True  # of which copies can be made, to try fixes on

    def __init__(
        self,
        setup: Setup,
        *,
        control: Control | None = None,
        thresholds: Mapping[str, Mapping[str, Any]] | None = None,
        known: Registry = registry,
        seed: int = 0,
        symptom: str | None = None,
        answers: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(setup, control or Control(), seed)
        self.registry = known.load()
        if symptom is not None:
            self.complain(symptom)
        for question, value in checked_answers(answers).items():
            self.journal.answer(question, value)
        self.thresholds: dict[str, dict[str, Any]] = {}
        for check, values in (thresholds or {}).items():
            self.set_thresholds(check, **values)
        self._evidence: dict[type, Any] = {}
        self._only_known = False  # the time is over: what is known already is judged, and nothing is tried

    def set_thresholds(self, check: str, **values: Any) -> None:
        """Judge a check by other numbers from now on; a name that it does not have is refused."""
        spec = self.registry.find(check)
        for name in values:
            if name not in spec.thresholds:
                raise BadInput(
                    f"the check {spec.id!r} has no threshold called {name!r}",
                    where="thresholds",
                    expected=f"one of {', '.join(spec.thresholds) or 'none: this check has no thresholds'}",
                    do=f"nbdebug.explain({spec.id!r}) lists them with their values",
                )
        self.thresholds.setdefault(spec.id, {}).update(values)

    def complain(self, symptom: str) -> None:
        """Keep what the user came with, by its id or its words."""
        self.journal.symptom = find_symptom(symptom).id

    def answer(self, question: str, value: Any) -> None:
        """Keep the user's answer to a question of the tree; None takes it back."""
        self.journal.answer(question, None if value is None else checked_answer(question, value))

    def run(self, checks: Iterable[str], *, first: Callable[[], object] | None = None) -> list[Result]:
        """Run these checks in order; an interrupt or a cancel ends the run and says so for those left.

        What is to be done `first` is stopped in the same way.

        Once the time is over, the checks whose evidence is known are judged all the same; the others are not tried.
        A second Ctrl-C is raised, after everything is restored. What the user has to fix first (`BadInput`,
        `TwinRefused`) ends the run as an error of its own.
        """
        left = [self.registry.find(check).id for check in checks]
        self._snapshot = StateSnapshot(*self.setup.live_parts())
        try:
            with interrupts_held(self.control), collecting_only_new():
                if first is not None:
                    first()
                while left:
                    self._run_next(left[0])
                    left.pop(0)
        except (KeyboardInterrupt, Cancelled) as stop:
            kind: Stopped = "interrupted" if isinstance(stop, KeyboardInterrupt) else "cancelled"
            reason = str(stop) or kind
            for check in left:
                self.journal.write(Result(check, "skipped", reason=reason, left_out="stopped"))
            self.journal.stop(kind, reason)
            if self.control.insisted.is_set():
                raise
        finally:
            self._snapshot, self._only_known = None, False
            self.control.reset()
        return self.journal.results

    def _run_next(self, check: str) -> None:
        """Run one check of a run; with what is known already, once the time is over."""
        kept = RACE_SHARE if _has_failed(self.known(LearningGate)) else 0.0
        try:
            if not self._only_known:
                self.control.poll()
            with self.control.keeping(kept):
                self.run_check(check)
        except OutOfTime:
            if self._only_known or not self.control.is_over:
                raise
            self._only_known = True
            self.journal.stop("out of time", not_tried(self.control))
            self.run_check(check)

    def run_check(self, check: str) -> Result:
        """Run one check and write its result into the journal."""
        spec = self.registry.find(check)
        self.journal.tell(Event("check-started", spec.id))
        started = time.perf_counter()
        result = self._judge(spec)
        result = replace(result, seconds=time.perf_counter() - started)
        self.journal.write(result)
        return result

    def gather(self, kind: type) -> Any:
        """Return the evidence of this type, from the cache or by running its probe; raise when it cannot be had."""
        try:
            return self.measure(kind)
        except KeyboardInterrupt:
            self.control.reset()  # it is obeyed now, and the next call may begin
            raise

    def measure(self, kind: type) -> Any:
        """Return the evidence as `gather` does, as a part of a longer run that obeys an interrupt in its own way."""
        found = self._lookup(kind)
        if isinstance(found, Missing):
            raise NotApplicable(found.reason)
        return found

    def forget(self, kinds: Iterable[type] | None = None) -> None:
        """Drop evidence, because what it was measured on has changed."""
        for kind in list(self._evidence) if kinds is None else kinds:
            self._evidence.pop(kind, None)

    def _judge(self, spec: CheckSpec) -> Result:
        arguments: dict[str, Any] = {}
        for name, need in spec.needs.items():
            found = self._supply(need)
            if isinstance(found, Missing):
                return Result(spec.id, found.status, reason=found.reason, left_out=found.left_out)
            arguments[name] = found
        try:
            said = spec.function(**arguments, **self.thresholds.get(spec.id, {}))
            findings = tuple(replace(_signed(finding, spec), session=self) for finding in said or ())
        except NotApplicable as why:
            lacking = self._lacking(spec) if not any(arguments.values()) else None
            if lacking is not None:  # nothing that it could be judged by
                return Result(spec.id, "skipped", reason=lacking.reason, left_out=lacking.left_out)
            return Result(spec.id, "skipped", reason=str(why))
        except Exception as error:
            return Result(spec.id, "crashed", reason=described(error))
        return Result(spec.id, "found" if findings else "clean", findings)

    def _lacking(self, spec: CheckSpec) -> Missing | None:
        """Return why the first evidence of a check is missing, where it is."""
        found = (self._evidence.get(need.kind) for need in spec.needs.values())
        return next((one for one in found if isinstance(one, Missing)), None)

    def _supply(self, need: Need) -> Any:
        found = self._lookup(need.kind)
        if need.optional and isinstance(found, Missing) and found.status == "skipped" and found.left_out not in UNTRIED:
            return None  # what was left out might have calmed: without it nothing is said
        return found

    def _lookup(self, kind: type) -> Any:
        if kind is Setup:
            return self.setup
        found = self._evidence.get(kind)
        is_late = isinstance(found, Missing) and found.left_out == "time"
        if found is None or (is_late and found.allowance != self.control.allowances):
            spec = self._source(kind)
            if spec is None:
                return Missing("crashed", f"no probe yields {kind.__name__}; define one with @nbdebug.probe")
            if self.control.quick and not spec.is_quick:
                return Missing("skipped", 'omitted by effort="quick"', "quick")
            if self._only_known:
                self._evidence[kind] = Missing("skipped", not_tried(self.control), "time", self.control.allowances)
                return self._evidence[kind]
            self._evidence[kind] = self._experiment(spec)
        return self._evidence[kind]

    def _source(self, kind: type) -> ProbeSpec | None:
        """Return what yields this type of evidence here; what only a recording shows is skipped for want of one."""
        return self.registry.probe_for(kind) or self.registry.reader_for(kind)

    def _experiment(self, spec: ProbeSpec) -> Any:
        """Run one probe under guard; what stops it for good is kept in place of its evidence."""
        needs: dict[str, Any] = {}
        for name, need in spec.needs.items():
            if need.kind in (Sandbox, Control):
                continue
            needs[name] = self._supply(need)
            if isinstance(needs[name], Missing):
                return needs[name]
        called = self._lookup(RecordedStructure) if spec.ops else None
        if isinstance(called, RecordedStructure) and called.lacks(*spec.ops):
            return Missing("skipped", f"a recorded run of the loss calls no {' or '.join(spec.ops)}")
        return self.run_probe(spec, needs)

    def known(self, kind: type) -> Any:
        """Return evidence that was gathered already, or None."""
        found = self._evidence.get(kind)
        return None if isinstance(found, Missing) else found

    def missing(self, kind: type) -> Missing | None:
        """Return why evidence that was asked for could not be had, or None."""
        found = self._evidence.get(kind)
        return found if isinstance(found, Missing) else None

    def keep(self, found: Any) -> None:
        """Keep what an experiment that is no probe found, as evidence of its own type."""
        self._evidence[type(found)] = found


def _signed(finding: Any, spec: CheckSpec) -> Finding:
    if not isinstance(finding, Finding):
        raise TypeError(f"the check {spec.id!r} yielded {type(finding).__name__}; it must yield nbdebug.Finding")
    stands = finding.is_contradiction or spec.basis == "contradiction"
    unproven = finding.severity == "bug" and not stands  # a bug once its fix rescues the training
    return replace(
        finding,
        check=spec.id,
        severity="suspect" if unproven else finding.severity,
        is_contradiction=stands,
        explains=tuple(dict.fromkeys((*finding.explains, *spec.explains))),
    )


def _has_failed(gate: LearningGate | None) -> bool:
    return gate is not None and gate.verdict == "fails"
