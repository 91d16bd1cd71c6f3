"""Recommend what to do next, and why, from the findings so far and the user's answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbdebug.core.finding import Finding, Result
from nbdebug.core.registry import Registry, registry
from nbdebug.engine.decision_tree.answering import find_question, follow_of
from nbdebug.engine.decision_tree.parts import Lead, Question, Stage, Step
from nbdebug.engine.decision_tree.symptoms import AFTER_MEMORISING
from nbdebug.engine.decision_tree.walking import order_for, questions
from nbdebug.engine.ranking import ranked

__all__ = ["Next", "next_step"]

BLOCKING = ("empty-loader", "sample-fails", "forward-fails")  # nothing after them can run


@dataclass(frozen=True)
class Next:
    """What to do next: a step to run, a finding to fix or a question to answer, and always why."""

    why: str
    step: Step | None = None
    fix: Finding | None = None
    question: Question | None = None


def next_step(
    results: Iterable[Result],
    answers: Mapping[str, Any] | None = None,
    symptom: str = "",
    known: Registry = registry,
) -> Next:
    """Recommend what to do next, and why.

    Findings that block all other checks come first; then the steps that an answer points to, those that could explain
    a bug that was found, and the rest in the order for the symptom.
    """
    done = {result.check: result for result in results}
    said = dict(answers or {})
    walk = order_for(symptom, known)
    found = ranked([f for r in done.values() for f in r.findings], [c for _, step, _ in walk for c in step.checks])
    open_steps = [(step, why) for _, step, why in walk if any(check not in done for check in step.checks)]
    blocked = next((f for f in found if f.is_alarm and f.check in BLOCKING), None)
    if blocked is not None:
        return Next("No later check can run before this is fixed.", fix=blocked)
    for step, why in (*_answered(said, open_steps), *_explaining(found, open_steps, known)):
        return Next(why, step, question=_question_at(step, said, symptom))
    if any(map(_asks_for_a_cause, found)):
        # The most likely cause may be a suspect that explains the bug; fixing the symptom would not help.
        return Next("Every check that could explain it has run: fix it, and run again.", fix=found[0])
    if open_steps:
        step, why = open_steps[0]
        return Next(why, step, question=_question_at(step, said, symptom))
    return _afterwards(found, walk, said, symptom)


def _answered(said: Mapping[str, Any], open_steps: Sequence[tuple[Step, str]]) -> Iterator[tuple[Step, str]]:
    """Yield the steps that the answers point to."""
    steps = {step.id: step for step, _ in open_steps}
    for name, value in said.items():
        question = find_question(name)
        follow = follow_of(question, value)
        for step in follow.steps if follow else ():
            if step in steps:
                yield steps[step], f'You answered "{value}" to: {question.words}'


def _explaining(
    found: Sequence[Finding], open_steps: Sequence[tuple[Step, str]], known: Registry
) -> Iterator[tuple[Step, str]]:
    """Yield the steps whose checks could explain a bug that was found, the most likely first."""
    for bug in filter(_asks_for_a_cause, found):
        lead = AFTER_MEMORISING.get(bug.outcome, Lead((), ""))
        hopeful = [
            step
            for step, _ in open_steps
            if any(bug.check in known.checks[c].explains for c in step.checks if c in known.checks)
            or step.id in lead.steps
        ]
        hopeful.sort(key=lambda step: lead.steps.index(step.id) if step.id in lead.steps else len(lead.steps))
        for step in hopeful:
            why = lead.why if step.id in lead.steps else "one of its checks is a known cause"
            yield step, f"It may explain {bug.check}: {why}."


def _asks_for_a_cause(finding: Finding) -> bool:
    """Whether this is a bug, or says that a training failed, so that its cause comes next."""
    return finding.severity == "bug" or (finding.is_alarm and bool(finding.outcome))


def _question_at(step: Step, said: Mapping[str, Any], symptom: str) -> Question | None:
    """Return an unanswered question of this step, those of the symptom first."""
    here = [q for q in (*questions(symptom), *questions()) if q.after == step.id and q.id not in said]
    return here[0] if here else None


def _afterwards(
    found: Sequence[Finding], walk: Sequence[tuple[Stage, Step, str]], said: Mapping[str, Any], symptom: str
) -> Next:
    """Recommend what is left when all checks have run."""
    alarm = next((f for f in found if f.is_alarm), None)
    if alarm is not None:
        return Next("Every check has run; this is the most likely cause. Fix it, and run again.", fix=alarm)
    question = next((q for q in questions(symptom or "unknown") if q.id not in said), None)
    if question is not None:
        return Next("The checks found no problem; only you can answer this.", question=question)
    wanted = [(step, why) for stage, step, why in walk if step.instruments and stage.id in ("watch", "improve")]
    if wanted:
        return Next(f"The checks found no problem. {wanted[0][1]}", wanted[0][0])
    return Next("The checks found no problem, and all questions of this symptom are answered.")
