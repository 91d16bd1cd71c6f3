"""Render the decision tree: as text in a terminal, as HTML in a notebook, with the states of a report."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nbdebug.core.finding import Result
from nbdebug.core.registry import registry
from nbdebug.engine.decision_tree import (
    Next,
    Question,
    Stage,
    Step,
    Symptom,
    find_symptom,
    next_step,
    questions,
    symptoms,
    whole_tree,
)
from nbdebug.engine.decision_tree.states import ICONS, WORDS, State, alarms_in, state_of
from nbdebug.errors import BadInput, plainly
from nbdebug.report.report import Report

__all__ = ["DrawnTree", "tree"]

WIDTH = 100


@dataclass(frozen=True)
class Branch:
    """One step as it is rendered: label, help text, state, position, checks, functions and questions."""

    id: str
    label: str
    question: str
    why: str
    state: State
    alarms: int
    place: int
    checks: tuple[tuple[str, State], ...]
    instruments: tuple[str, ...]
    questions: tuple[Question, ...]

    @property
    def remark(self) -> str:
        """The state in words; empty for a step without checks."""
        if not self.checks:
            return ""
        return f"{self.alarms} found" if self.alarms else WORDS[self.state]


@dataclass(frozen=True)
class DrawnTree:
    """The tree ready to be shown; `str()` returns the text."""

    symptoms: tuple[Symptom, ...]
    chosen: str
    limbs: tuple[tuple[Stage, tuple[Branch, ...]], ...]
    examined: bool
    advice: Next | None = None

    def __str__(self) -> str:
        """Return the tree for a terminal."""
        return "\n".join(_lines(self))

    __repr__ = __str__

    @property
    def advice_words(self) -> str:
        """What to do next, and why, in one line."""
        if self.advice is None:
            return ""
        what = f"{self.advice.step.label}." if self.advice.step else ""
        if self.advice.fix:
            what = f"fix {self.advice.fix.check}."
        elif self.advice.question and not what:
            what = self.advice.question.words
        return f"Next: {what} {self.advice.why}" if what else self.advice.why

    def _repr_html_(self) -> str:
        from nbdebug.report.page import tree_fragment

        return tree_fragment(self)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}


@plainly
def tree(report: Report | None = None, *, symptom: str | None = None) -> DrawnTree:
    """Draw the decision tree: its steps in order, with their checks.

    With a report, every step shows its result. With a symptom such as "loss is NaN", the steps that run first are
    numbered; a report brings the symptom it was made for.
    """
    if report is not None and not isinstance(report, Report):
        raise BadInput(
            f"it is a {type(report).__name__}",
            where="nbdebug.tree(report)",
            expected="a report returned by nbdebug.diagnose, or nothing",
            do="call nbdebug.tree() for the tree alone",
        )
    registry.load("nbdebug.checks")
    named = symptom if symptom is not None else report.symptom if report else ""
    chosen = find_symptom(named) if named else None
    results = {result.check: result for result in report.results} if report else {}
    stages = whole_tree(registry)
    offered = {step.id for stage in stages for step in stage.steps}
    first = [step for step in chosen.steps if step in offered] if chosen else []
    limbs = tuple((stage, tuple(_branch(step, results, first) for step in stage.steps)) for stage in stages)
    asked = {question.id for question in questions()}
    said = {name: value for name, value in report.answers.items() if name in asked} if report else {}
    advice = next_step(report.results, said, chosen.id if chosen else "") if report else None
    return DrawnTree(symptoms(), chosen.id if chosen else "", limbs, report is not None, advice)


def _branch(step: Step, results: Mapping[str, Result], first: Sequence[str]) -> Branch:
    return Branch(
        id=step.id,
        label=step.label,
        question=step.question,
        why=step.why,
        state=state_of(step.checks, results),
        alarms=alarms_in(step.checks, results),
        place=first.index(step.id) + 1 if step.id in first else 0,
        checks=tuple((check, state_of((check,), results)) for check in step.checks),
        instruments=step.instruments,
        questions=tuple(question for question in questions() if question.after == step.id),
    )


def _lines(drawn: DrawnTree) -> Iterator[str]:
    yield "What is wrong?"
    for symptom in drawn.symptoms:
        yield f"  {'●' if symptom.id == drawn.chosen else '·'} {symptom.words}"
    for number, (stage, branches) in enumerate(drawn.limbs):
        yield ""
        yield f"{number}. {stage.title}"
        for branch in branches:
            last = branch is branches[-1]
            yield from _branch_lines(branch, "└─" if last else "├─", "  " if last else "│ ", drawn.examined)
    if drawn.advice is not None:
        yield ""
        yield from textwrap.wrap(drawn.advice_words, WIDTH)


def _branch_lines(branch: Branch, fork: str, stem: str, examined: bool) -> Iterator[str]:
    sign = f"{ICONS[branch.state]} " if examined and branch.checks else ""
    place = f" [{branch.place}]" if branch.place else ""
    remark = f" ({branch.remark})" if examined and branch.remark else ""
    yield f"{fork} {sign}{branch.label}{place}{remark}"
    yield from _wrapped(branch.question, f"{stem}   ")
    checks = [
        f"{ICONS[state]}\u00a0{check}" if examined and state != "clean" else check for check, state in branch.checks
    ]
    names = [f"nbdebug.{name}" for name in branch.instruments]
    if checks or names:
        yield from _wrapped(", ".join([*checks, *names]), f"{stem}     ")
    for question in branch.questions:
        yield from _wrapped(f"? {question.words}", f"{stem}     ")


def _wrapped(text: str, indent: str) -> list[str]:
    lines = textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False)
    return [line.replace("\u00a0", " ") for line in lines]  # a sign stays with its word
