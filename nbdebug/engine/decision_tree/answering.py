"""Validate answers to the questions that only the user can answer, and return what follows from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nbdebug.engine.decision_tree.parts import Follow, Question
from nbdebug.engine.decision_tree.questions import QUESTIONS
from nbdebug.errors import BadInput

__all__ = ["Said", "checked_answer", "checked_answers", "find_question", "follow_of", "said"]

MOST_LETTERS = 2000


@dataclass(frozen=True)
class Said:
    """One answer of the user: the question, the answer in words, and what follows from it."""

    question: str
    answer: str
    follows: str = ""


def find_question(name: object) -> Question:
    """Return the question with this id; raise with the list for any other."""
    for question in QUESTIONS:
        if question.id == name:
            return question
    raise BadInput(
        f"unknown question {name!r}",
        where="answers",
        expected=f"one of {', '.join(question.id for question in QUESTIONS)}",
        do="nbdebug.engine.decision_tree.questions() returns all questions with their text",
    )


def checked_answers(answers: Any) -> dict[str, Any]:
    """Return the answers by question, each converted to the kind that its question requires."""
    if answers is None:
        return {}
    if not isinstance(answers, Mapping):
        raise BadInput(
            f"it is a {type(answers).__name__}",
            where="answers",
            expected="a dict that maps question ids to answers",
            do='write answers={"labels-fit": "yes"}',
        )
    return {str(name): checked_answer(name, value) for name, value in answers.items()}


def checked_answer(name: object, value: Any) -> Any:
    """Return one answer converted to the kind that its question requires: a number, a text, or one of the choices."""
    question = find_question(name)
    if question.kind == "number":
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise _no_answer(question, value, "a finite number" + (f", {question.unit}" if question.unit else ""))
        return value
    if question.kind == "text":
        if not isinstance(value, str) or len(value) > MOST_LETTERS:
            raise _no_answer(question, value, f"a text of at most {MOST_LETTERS} characters")
        return value
    words = {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value
    for choice in question.answers:
        if isinstance(words, str) and words.strip().lower() == choice.lower():
            return choice
    raise _no_answer(question, value, "one of " + ", ".join(f'"{choice}"' for choice in question.answers))


def _no_answer(question: Question, value: Any, expected: str) -> BadInput:
    return BadInput(
        f"{repr(value)[:60]} is not a valid answer to {question.words!r}",
        where=f"answers[{question.id!r}]",
        expected=expected,
        do="omit the question if you cannot answer it",
    )


def follow_of(question: Question, answer: Any) -> Follow | None:
    """Return what follows from an answer, or None."""
    return next((follow for follow in question.follows if follow.answer in ("any", answer)), None)


def said(symptom: str, answers: Mapping[str, Any]) -> tuple[Said, ...]:
    """Return the answers in words, also for a report that is older or newer than the questions known here."""
    from nbdebug.engine.decision_tree.walking import symptoms

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
