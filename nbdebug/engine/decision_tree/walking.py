"""Iterate over the tree: whole, by symptom, and with the user's custom checks in their places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nbdebug.core.registry import Registry, registry
from nbdebug.engine.decision_tree.parts import Question, Stage, Step, Symptom
from nbdebug.engine.decision_tree.questions import QUESTIONS
from nbdebug.engine.decision_tree.stages import TREE
from nbdebug.engine.decision_tree.symptoms import SYMPTOMS
from nbdebug.errors import BadInput

__all__ = [
    "checks_for",
    "find_symptom",
    "on_offer",
    "order_for",
    "questions",
    "stages",
    "step_of",
    "symptoms",
    "tree_order",
    "whole_tree",
]

YOURS = Stage("yours", "Custom checks", ())


def symptoms() -> tuple[Symptom, ...]:
    """Return the symptoms in the order in which they are offered."""
    return SYMPTOMS


def questions(symptom: str = "") -> tuple[Question, ...]:
    """Return the questions that only the user can answer; those of one symptom if it is named."""
    known = {question.id: replace(question, look=_existing(question.look)) for question in QUESTIONS}
    wanted = find_symptom(symptom).questions if symptom else tuple(known)
    return tuple(known[name] for name in wanted)


def find_symptom(name: object) -> Symptom:
    """Return the symptom with this id or these words; raise with the list for any other name."""
    plain = _letters(name)
    for symptom in SYMPTOMS:
        if isinstance(name, str) and plain in (_letters(symptom.id), _letters(symptom.words)):
            return symptom
    raise BadInput(
        f"unknown symptom {name!r}",
        where="symptom",
        expected="one of " + ", ".join(f'"{symptom.words}"' for symptom in SYMPTOMS),
        do='choose the closest one, or omit it, which is the same as "I don\'t know: run everything"',
    )


def _letters(name: object) -> str:
    words = "".join(c if c.isalnum() else " " for c in str(name).lower().replace("'", "")).split()
    return " ".join(word for word in words if word not in ("the", "it", "a"))


def stages(known: Registry) -> list[Stage]:
    """Return the part of the tree that runs automatically: stages and steps with checks, custom checks included."""
    only = [replace(stage, steps=tuple(s for s in stage.steps if s.checks)) for stage in _with_yours(known)]
    return [stage for stage in only if stage.steps]


def whole_tree(known: Registry) -> list[Stage]:
    """Return the tree with its functions and questions, without functions that this version lacks."""
    asked = {question.after for question in QUESTIONS}
    grown = [
        replace(stage, steps=tuple(s for s in map(on_offer, stage.steps) if s.checks or s.instruments or s.id in asked))
        for stage in _with_yours(known)
    ]
    return [stage for stage in grown if stage.steps]


def on_offer(step: Step) -> Step:
    """Return the step with those of its instruments that this version has."""
    return replace(step, instruments=_existing(step.instruments))


def _existing(names: tuple[str, ...]) -> tuple[str, ...]:
    """Omit functions that this version does not have, so that only existing ones are advertised."""
    import nbdebug

    checks = {check for stage in TREE for check in stage.checks}
    return tuple(name for name in names if name in nbdebug.__all__ or name in checks)


def _with_yours(known: Registry) -> list[Stage]:
    placed = {check for stage in TREE for check in stage.checks}
    own = [spec for spec in known.checks.values() if spec.id not in placed]
    ids = {stage.id for stage in TREE}
    grown = [_with_own(stage, [s.id for s in own if s.stage == stage.id]) for stage in TREE]
    rest = [spec.id for spec in own if spec.stage not in ids]
    return [*grown, _with_own(YOURS, rest)] if rest else grown


def _with_own(stage: Stage, checks: list[str]) -> Stage:
    if not checks:
        return stage
    step = Step(f"{stage.id}-own", "Custom checks", "Do your custom checks pass?", "You defined them.", tuple(checks))
    return replace(stage, steps=(*stage.steps, step))


def step_of(known: Registry) -> Iterator[tuple[Stage, Step]]:
    """Yield the steps that run automatically, in order, each with its stage."""
    for stage in stages(known):
        for step in stage.steps:
            yield stage, step


def order_for(symptom: str = "", known: Registry = registry) -> list[tuple[Stage, Step, str]]:
    """Return every available step in the order for this symptom, with its stage and the reason for its position."""
    chosen = find_symptom(symptom or "unknown")
    steps = {step.id: (stage, step) for stage in whole_tree(known) for step in stage.steps}
    first = [(*steps[name], lead.why) for lead in chosen.leads for name in lead.steps if name in steps]
    rest = [(stage, step, step.why) for name, (stage, step) in steps.items() if name not in chosen.steps]
    return [*first, *rest]


def tree_order(known: Registry = registry) -> list[str]:
    """Return the ids of all checks in the order of the tree."""
    return [check for stage in stages(known) for check in stage.checks]


def checks_for(symptom: str = "", known: Registry = registry) -> list[str]:
    """Return the ids of all checks in the order for this symptom."""
    return [check for _, step, _ in order_for(symptom, known) for check in step.checks]
