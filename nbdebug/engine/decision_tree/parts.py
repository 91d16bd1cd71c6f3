"""What the decision tree is made of; the other files of this folder hold it as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nbdebug.engine.decision_tree.sources import SOURCES

__all__ = ["Follow", "Kind", "Lead", "Question", "Stage", "Step", "Symptom"]

Kind = Literal["yes/no", "number", "choice", "text"]


@dataclass(frozen=True)
class Step:
    """One step of the tree: its short label, the question it answers (the help text), why it matters, and its checks.

    `instruments` are functions of `nbdebug`, by name, that answer the question with or instead of checks.
    """

    id: str
    label: str
    question: str
    why: str
    checks: tuple[str, ...] = ()
    instruments: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """Where the step is advised, with the number or the heading there; empty where it is our own."""
        return SOURCES.get(self.id, "")


@dataclass(frozen=True)
class Stage:
    """A group of steps to settle before the next group makes sense."""

    id: str
    title: str
    steps: tuple[Step, ...]

    @property
    def checks(self) -> tuple[str, ...]:
        """All checks of the stage, in order."""
        return tuple(check for step in self.steps for check in step.checks)


@dataclass(frozen=True)
class Lead:
    """Steps to run before the others, and why."""

    steps: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Symptom:
    """What the user observes: the steps to run first, and the questions that only the user can answer.

    `answered_by` names the checks whose finding is the answer to the symptom itself, so that it is shown first.
    """

    id: str
    words: str
    about: str
    leads: tuple[Lead, ...] = ()
    questions: tuple[str, ...] = ()
    answered_by: tuple[str, ...] = ()

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps to run first, in order."""
        return tuple(step for lead in self.leads for step in lead.steps)


@dataclass(frozen=True)
class Follow:
    """What follows from an answer: advice, and the steps to run next.

    `answer` is "yes", "no", "unsure", one of the choices, or "any".
    """

    answer: str
    advice: str
    steps: tuple[str, ...] = ()


@dataclass(frozen=True)
class Question:
    """Something that only the user can answer: how, why it is asked, and what follows from each answer.

    `after` is the step where it matters; `look` are functions of `nbdebug` and checks that help to answer it.
    """

    id: str
    words: str
    why: str
    kind: Kind
    after: str
    follows: tuple[Follow, ...]
    choices: tuple[str, ...] = ()
    look: tuple[str, ...] = ()
    unit: str = ""

    @property
    def answers(self) -> tuple[str, ...]:
        """The answers to choose from; none for a number or a text."""
        return ("yes", "no", "unsure") if self.kind == "yes/no" else self.choices
