"""Answers to the questions that only a person can answer: refuse what is none, and say what follows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nbdebug.decision_tree.parts import Follow, Question
from nbdebug.decision_tree.questions import QUESTIONS
from nbdebug.errors import BadInput

__all__ = ["Said", "checked_answer", "checked_answers", "find_question", "follow_of", "said"]

MOST_LETTERS = 2000


@dataclass(frozen=True)
class Said:
    """One thing that the user said: the question, the answer in words, and what follows from it."""

    question: str
    answer: str
    follows: str = ""


def find_question(name: object) -> Question:
    """Give the question with this id; another is refused with the list."""
    for question in QUESTIONS:
        if question.id == name:
            return question
    raise BadInput(
        f"there is no question {name!r}",
        where="answers",
        expected=f"one of {', '.join(question.id for question in QUESTIONS)}",
        do="nbdebug.decision_tree.questions() gives them with their words",
    )


def checked_answers(answers: Any) -> dict[str, Any]:
    """Give the answers by question, each as the question's kind wants it."""
    if answers is None:
        return {}
    if not isinstance(answers, Mapping):
        raise BadInput(
            f"it is a {type(answers).__name__}",
            where="answers",
            expected="a dict of answers by the id of the question",
            do='write answers={"labels-fit": "yes"}',
        )
    return {str(name): checked_answer(name, value) for name, value in answers.items()}


def checked_answer(name: object, value: Any) -> Any:
    """Give one answer as its question's kind wants it: a number, a text, or one of the choices."""
    question = find_question(name)
    if question.kind == "number":
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise _no_answer(question, value, "a finite number" + (f", {question.unit}" if question.unit else ""))
        return value
    if question.kind == "text":
        if not isinstance(value, str) or len(value) > MOST_LETTERS:
            raise _no_answer(question, value, f"a text of at most {MOST_LETTERS} letters")
        return value
    words = {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value
    for choice in question.answers:
        if isinstance(words, str) and words.strip().lower() == choice.lower():
            return choice
    raise _no_answer(question, value, "one of " + ", ".join(f'"{choice}"' for choice in question.answers))


def _no_answer(question: Question, value: Any, expected: str) -> BadInput:
    return BadInput(
        f"{repr(value)[:60]} is no answer to {question.words!r}",
        where=f"answers[{question.id!r}]",
        expected=expected,
        do="leave the question out if you cannot answer it",
    )


def follow_of(question: Question, answer: Any) -> Follow | None:
    """Give what follows from an answer; nothing follows from many."""
    return next((follow for follow in question.follows if follow.answer in ("any", answer)), None)


def said(symptom: str, answers: Mapping[str, Any]) -> tuple[Said, ...]:
    """Give in words what the user said, also where a report is older or newer than the questions known here."""
    from nbdebug.decision_tree.walking import symptoms

    known = {question.id: question for question in QUESTIONS}
    words = {item.id: item for item in symptoms()}
    lines = []
    if symptom:
        what = words.get(symptom)
        lines.append(Said("What is wrong?", what.words if what else symptom, what.about if what else ""))
    for name, value in answers.items():
        question = known.get(name)
        follow = follow_of(question, value) if question else None
        lines.append(Said(question.words if question else name, str(value), follow.advice if follow else ""))
    return tuple(lines)
