"""What to do next, and why: from what was found so far and what the user said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbdebug.decision_tree.answering import find_question, follow_of
from nbdebug.decision_tree.parts import Lead, Question, Stage, Step
from nbdebug.decision_tree.symptoms import AFTER_MEMORISING
from nbdebug.decision_tree.walking import order_for, questions
from nbdebug.finding import Finding, Result
from nbdebug.ranking import ranked
from nbdebug.registry import Registry, registry

__all__ = ["Next", "next_step"]

BLOCKING = ("empty-loader", "sample-fails", "forward-fails")  # nothing after them can run


@dataclass(frozen=True)
class Next:
    """What to do next: a step to run, a finding to mend, a question to answer, and always why."""

    why: str
    step: Step | None = None
    mend: Finding | None = None
    question: Question | None = None


def next_step(
    results: Iterable[Result],
    answers: Mapping[str, Any] | None = None,
    symptom: str = "",
    known: Registry = registry,
) -> Next:
    """Recommend what to do next, and say why.

    What keeps everything else from running is mended first; then come the steps that an answer points to, those that
    could explain a bug that was found, and the rest in the order for the symptom.
    """
    done = {result.check: result for result in results}
    said = dict(answers or {})
    walk = order_for(symptom, known)
    found = ranked([f for r in done.values() for f in r.findings], [c for _, step, _ in walk for c in step.checks])
    open_steps = [(step, why) for _, step, why in walk if any(check not in done for check in step.checks)]
    blocked = next((f for f in found if f.is_alarm and f.check in BLOCKING), None)
    if blocked is not None:
        return Next("Nothing after it can run before this is mended.", mend=blocked)
    for step, why in (*_answered(said, open_steps), *_explaining(found, open_steps, known)):
        return Next(why, step, question=_question_at(step, said, symptom))
    bug = next((f for f in found if f.severity == "bug"), None)
    if bug is not None:
        return Next("Every check that could explain it has been asked: mend it, and run again.", mend=bug)
    if open_steps:
        step, why = open_steps[0]
        return Next(why, step, question=_question_at(step, said, symptom))
    return _afterwards(found, walk, said, symptom)


def _answered(said: Mapping[str, Any], open_steps: Sequence[tuple[Step, str]]) -> Iterator[tuple[Step, str]]:
    """Walk the steps that the answers point to."""
    steps = {step.id: step for step, _ in open_steps}
    for name, value in said.items():
        question = find_question(name)
        follow = follow_of(question, value)
        for step in follow.steps if follow else ():
            if step in steps:
                yield steps[step], f'You said "{value}" to: {question.words}'


def _explaining(
    found: Sequence[Finding], open_steps: Sequence[tuple[Step, str]], known: Registry
) -> Iterator[tuple[Step, str]]:
    """Walk the steps whose checks could explain a bug that was found, the likeliest first."""
    for bug in (f for f in found if f.severity == "bug"):
        lead = AFTER_MEMORISING.get(bug.outcome, Lead((), ""))
        hopeful = [
            step
            for step, _ in open_steps
            if any(bug.check in known.checks[c].explains for c in step.checks if c in known.checks)
            or step.id in lead.steps
        ]
        hopeful.sort(key=lambda step: lead.steps.index(step.id) if step.id in lead.steps else len(lead.steps))
        for step in hopeful:
            why = lead.why if step.id in lead.steps else "one of its checks accounts for that where both are found"
            yield step, f"It may explain {bug.check}: {why}."


def _question_at(step: Step, said: Mapping[str, Any], symptom: str) -> Question | None:
    """Give a question that belongs to this step and has no answer yet, those of the symptom first."""
    here = [q for q in (*questions(symptom), *questions()) if q.after == step.id and q.id not in said]
    return here[0] if here else None


def _afterwards(
    found: Sequence[Finding], walk: Sequence[tuple[Stage, Step, str]], said: Mapping[str, Any], symptom: str
) -> Next:
    """Recommend what is left when every check has been asked."""
    alarm = next((f for f in found if f.is_alarm), None)
    if alarm is not None:
        return Next("Everything has been asked; this is the likeliest cause. Mend it, and run again.", mend=alarm)
    question = next((q for q in questions(symptom or "unknown") if q.id not in said), None)
    if question is not None:
        return Next("The checks found nothing; what is left only you can say.", question=question)
    wanted = [(step, why) for stage, step, why in walk if step.instruments and stage.id in ("watch", "improve")]
    if wanted:
        return Next(f"The checks found nothing. {wanted[0][1]}", wanted[0][0])
    return Next("The checks found nothing, and every question of this symptom has an answer.")
